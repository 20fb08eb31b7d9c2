/* Shows the values under the pointer. Without this script the page has everything but that. */
document.querySelectorAll('svg[data-box]').forEach(function (svg) {
  var box = svg.dataset.box.split(' ').map(Number); /* left, right, top, bottom, x and y ranges */
  var curves = Array.from(svg.querySelectorAll('[data-p]')).map(function (path) {
    return {name: path.dataset.name, points: path.dataset.p.split(' ').map(function (p) {
      return p.split(',').map(Number);
    })};
  });
  var line = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  var tip = document.createElement('div'), at = 0;
  var steps = Array.from(new Set(curves.flatMap(function (c) {
    return c.points.map(function (p) { return p[0]; });
  }))).sort(function (a, b) { return a - b; });
  if (steps.length === 0) return;
  line.setAttribute('class', 'cursor');
  tip.className = 'tip';
  tip.hidden = true;
  svg.append(line);
  svg.parentNode.append(tip);
  function nearest(points, x) {
    return points.reduce(function (a, b) { return Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a; });
  }
  function show(i) {
    at = Math.max(0, Math.min(steps.length - 1, i));
    var x = steps[at], px = box[0] + (x - box[4]) / (box[5] - box[4]) * (box[1] - box[0]);
    line.setAttribute('d', 'M' + px + ' ' + box[2] + 'V' + box[3]);
    tip.textContent = 'update ' + Number(x.toFixed(1)) + curves.map(function (c) {
      var p = nearest(c.points, x);
      return '\n' + c.name + ' ' + p[1] + (p[0] === x ? '' : ' (at ' + Number(p[0].toFixed(1)) + ')');
    }).join('');
    tip.hidden = false;
    var share = px / svg.viewBox.baseVal.width;
    tip.style.left = share < 0.5 ? 'calc(' + 100 * share + '% + 12px)' : 'auto';
    tip.style.right = share < 0.5 ? 'auto' : 'calc(' + 100 * (1 - share) + '% + 12px)';
  }
  function hide() {
    tip.hidden = true;
    line.setAttribute('d', '');
  }
  function move(event) {
    var r = svg.getBoundingClientRect();
    var px = (event.clientX - r.left) / r.width * svg.viewBox.baseVal.width;
    var x = box[4] + (px - box[0]) / (box[1] - box[0]) * (box[5] - box[4]);
    show(steps.indexOf(nearest(steps.map(function (s) { return [s]; }), x)[0]));
  }
  svg.addEventListener('pointermove', move);
  svg.addEventListener('pointerdown', move);
  svg.addEventListener('pointerleave', hide);
  svg.addEventListener('blur', hide);
  svg.addEventListener('keydown', function (event) {
    var by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (by !== 0) { event.preventDefault(); show(at + by); }
  });
});
