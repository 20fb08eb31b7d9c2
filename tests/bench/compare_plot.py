"""Plots the ratios of compare.py as SVG: a bar for each peer, and a line at 1."""
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, ROW, TOP = 900, 440, 70, 20, 60
COLORS = ["#2f6f9f", "#c0703a", "#5a8f4f", "#8a5a9f", "#777777"]


def text(x, y, words, anchor="start", size=12):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'font-family="sans-serif">{escape(words)}</text>')


def bars(result):
    for row in result["rows"]:
        for peer, ratio in row["ratios"].items():
            yield f"{row['comparison']}: {row['metric']}, against {peer}", peer, ratio


def plot(result):
    """The SVG; without ratios it says so."""
    all_bars = list(bars(result))
    most = max([ratio for _, _, ratio in all_bars] + [1]) * 1.1
    scale = (WIDTH - LEFT - RIGHT) / most
    height = TOP + ROW * max(len(all_bars), 1) + 40
    peers = list(dict.fromkeys(peer for _, peer, _ in all_bars))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
           f'viewBox="0 0 {WIDTH} {height}">', f'<rect width="{WIDTH}" height="{height}" '
           'fill="white"/>', text(12, 24, "Rate of Weft divided by that of the other program", size=15),
           text(12, 44, f"{result['processor']}, {result['threads']} threads, medians of "
                f"{result['rounds']} rounds" + (", a check of the programs only"
                                                if result["quick"] else ""))]
    if not all_bars:
        out.append(text(12, TOP + 15, "no other program was measured"))
    for i, (name, peer, ratio) in enumerate(all_bars):
        y = TOP + ROW * i
        color = COLORS[peers.index(peer) % len(COLORS)]
        out += [text(LEFT - 8, y + 14, name, "end"),
                f'<rect x="{LEFT}" y="{y + 3}" width="{ratio * scale:.1f}" height="{ROW - 6}" '
                f'fill="{color}"/>', text(LEFT + ratio * scale + 5, y + 14, f"{ratio:.2f}")]
    line, bottom = LEFT + scale, TOP + ROW * max(len(all_bars), 1)
    out += [f'<line x1="{line:.1f}" y1="{TOP - 4}" x2="{line:.1f}" y2="{bottom + 4}" '
            'stroke="black" stroke-dasharray="4 3"/>', text(line, bottom + 18, "1", "middle"),
            "</svg>\n"]
    return "\n".join(out)
