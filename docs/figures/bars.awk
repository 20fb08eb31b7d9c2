# docs/figures/bars.awk -- draws a table of a document as horizontal bars, as SVG.
# Variables: heading (the section's line), table (which of its tables, from 1), columns (their
# numbers, such as "2 3"), title. The bars of a row are drawn against the row's largest number;
# with same=1 against the largest of all rows.

function escape(text) {
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    return text
}

function trim(text) {
    gsub(/^[ \t`]+|[ \t`]+$/, "", text)
    return text
}

# The first number of a cell; "" where there is none.
function number(text) {
    gsub(/,/, "", text)
    return match(text, /^[0-9]+(\.[0-9]+)?/) ? substr(text, RSTART, RLENGTH) + 0 : ""
}

BEGIN { n_columns = split(columns, wanted, " ") }

$0 == heading { inside = 1; next }
/^#/ { inside = 0 }
!inside { next }

/^\|/ {
    if (!in_table) { tables++; line = 0 }
    in_table = 1
    if (tables != table) next
    line++
    split($0, cells, "|")
    if (line == 1) {
        for (i = 1; i <= n_columns; i++) label[i] = trim(cells[wanted[i] + 1])
    } else if (line > 2) {
        rows++
        name[rows] = trim(cells[2])
        for (i = 1; i <= n_columns; i++) {
            text[rows, i] = trim(cells[wanted[i] + 1])
            value[rows, i] = number(text[rows, i])
            if (value[rows, i] > largest[rows]) largest[rows] = value[rows, i]
            if (value[rows, i] > most) most = value[rows, i]
        }
    }
    next
}
{ in_table = 0 }

END {
    if (rows == 0) { print "bars.awk: no such table: " heading > "/dev/stderr"; exit 1 }
    split("#0891b2 #9ca3af #d1d5db #e5e7eb", color, " ")
    width = 860; left = 250; room = 440; bar = 16
    height = 60 + rows * (n_columns * (bar + 3) + 16) + (n_columns > 1 ? 24 : 0)
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\">\n", \
        width, height
    print "<style>"
    print "  text { font-family: system-ui, sans-serif; font-size: 13px; fill: #4b5563 }"
    print "  .title { font-size: 17px; font-weight: 600; fill: #111827 } .page { fill: #ffffff }"
    print "  @media (prefers-color-scheme: dark) {"
    print "    text { fill: #9ca3af } .title { fill: #f3f4f6 } .page { fill: #111827 }"
    print "  }"
    print "</style>"
    printf "<rect class=\"page\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n", width, height
    printf "<text class=\"title\" x=\"24\" y=\"32\">%s</text>\n", escape(title)
    y = 54
    for (r = 1; r <= rows; r++) {
        printf "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", left - 12, \
            y + n_columns * (bar + 3) / 2 + 3, escape(name[r])
        for (i = 1; i <= n_columns; i++) {
            length_of = value[r, i] == "" ? 0 : value[r, i] / (same ? most : largest[r]) * room
            printf "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n", left, y, \
                length_of, bar, color[i]
            printf "<text x=\"%.1f\" y=\"%d\">%s</text>\n", left + length_of + 8, y + 13, \
                escape(text[r, i])
            y += bar + 3
        }
        y += 16
    }
    x = left
    for (i = 1; i <= n_columns && n_columns > 1; i++) {
        printf "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", x, y, color[i]
        printf "<text x=\"%d\" y=\"%d\">%s</text>\n", x + 18, y + 11, escape(label[i])
        x += 40 + 7.2 * length(label[i])
    }
    print "</svg>"
}
