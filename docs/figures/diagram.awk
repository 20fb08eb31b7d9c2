# docs/figures/diagram.awk -- draws a diagram from text as SVG. Lines of the text:
#   title TEXT            the heading
#   row A: text | B: text boxes side by side, each with a name and perhaps a text
#   arrow TEXT            an arrow down, with a label
#   note TEXT             a line of text
# Everything else is ignored.

function escape(text) {
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    return text
}

function trim(text) {
    sub(/^[ \t]+/, "", text)
    sub(/[ \t]+$/, "", text)
    return text
}

# Breaks text into lines[1..n] of at most `most` characters; returns n.
function wrap(text, most, lines,    words, n, i, count) {
    count = split(text, words, " ")
    n = 0
    for (i = 1; i <= count; i++) {
        if (n > 0 && length(lines[n] " " words[i]) <= most)
            lines[n] = lines[n] " " words[i]
        else
            lines[++n] = words[i]
    }
    return n
}

function put(text) {
    out = out text "\n"
}

function text_at(class, x, y, text) {
    put("<text class=\"" class "\" x=\"" x "\" y=\"" y "\">" escape(text) "</text>")
}

BEGIN {
    width = 860
    margin = 24
    gap = 12
    y = margin
}

/^title / {
    text_at("title", width / 2, y + 14, trim(substr($0, 7)))
    y += 34
}

/^note / {
    text_at("note", width / 2, y + 14, trim(substr($0, 6)))
    y += 26
}

/^arrow/ {
    label = trim(substr($0, 6))
    put("<path class=\"line\" d=\"M" width / 2 " " y + 2 "V" y + 26 "\"/>")
    put("<path class=\"head\" d=\"M" width / 2 - 5 " " y + 24 "h10l-5 8z\"/>")
    if (label != "")
        text_at("label", width / 2 + 14, y + 21, label)
    y += 36
}

/^row / {
    n = split(substr($0, 5), boxes, "|")
    box = (width - 2 * margin - (n - 1) * gap) / n
    most = 0
    for (i = 1; i <= n; i++) {
        at = index(boxes[i], ":")
        name[i] = trim(at ? substr(boxes[i], 1, at - 1) : boxes[i])
        count[i] = wrap(at ? trim(substr(boxes[i], at + 1)) : "", int(box / 6.7), lines)
        for (k = 1; k <= count[i]; k++)
            line[i, k] = lines[k]
        most = count[i] > most ? count[i] : most
    }
    height = 34 + 16 * most
    for (i = 1; i <= n; i++) {
        x = margin + (i - 1) * (box + gap)
        put("<rect class=\"box\" x=\"" x "\" y=\"" y "\" width=\"" box "\" height=\"" height \
            "\" rx=\"6\"/>")
        text_at("name", x + box / 2, y + 22, name[i])
        for (k = 1; k <= count[i]; k++)
            text_at("text", x + box / 2, y + 24 + 16 * k, line[i, k])
    }
    y += height + 6
}

END {
    y += margin - 6
    print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " width " " y "\" role=\"img\">"
    print "<style>"
    print "  text { font-family: system-ui, sans-serif; font-size: 13px; fill: #4b5563;"
    print "    text-anchor: middle }"
    print "  .title { font-size: 17px; font-weight: 600; fill: #111827 }"
    print "  .name { font-size: 14px; font-weight: 600; fill: #111827 } .text { font-size: 12.5px }"
    print "  .label { text-anchor: start; font-style: italic }"
    print "  .page { fill: #ffffff } .box { fill: #f3f4f6; stroke: #9ca3af }"
    print "  .line { stroke: #6b7280; stroke-width: 1.5 } .head { fill: #6b7280 }"
    print "  @media (prefers-color-scheme: dark) {"
    print "    text { fill: #9ca3af } .title, .name { fill: #f3f4f6 } .page { fill: #111827 }"
    print "    .box { fill: #1f2937; stroke: #4b5563 }"
    print "  }"
    print "</style>"
    print "<rect class=\"page\" width=\"" width "\" height=\"" y "\" rx=\"8\"/>"
    printf "%s</svg>\n", out
}
