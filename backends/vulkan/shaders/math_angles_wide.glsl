// backends/vulkan/shaders/math_angles_wide.glsl -- the functions of math_angles.glsl for double.

// Multiplies x = m 2^e by 2 / pi as the float function does, with windows of 192 bits.
dvec2 reduce_large(const double x, out int quadrant)
{
    uvec2 bits = unpackDouble2x32(x);
    uint m1 = (bits.y & 0xfffffu) | 0x100000u, m0 = bits.x;
    int first = int(bits.y >> 20 & 2047u) - 1077; // first bit: e - 2; |x| is at least 2^22
    uint product[6], carry = 0u; // modulo 2^192, lowest word first
    for (int i = 0; i < 6; i++) {
        int at = first + 32 * (5 - i);
        uint w = at < 0 ? (at > -32 ? two_over_pi(0) >> -at : 0u) : two_over_pi(at);
        uint high, low, more;
        umulExtended(m0, w, high, low);
        product[i] = uaddCarry(low, carry, more);
        carry = high + more;
    }
    carry = 0u;
    for (int i = 1; i < 6; i++) {
        int at = first + 32 * (6 - i);
        uint w = at < 0 ? (at > -32 ? two_over_pi(0) >> -at : 0u) : two_over_pi(at);
        uint high, low, more, again;
        umulExtended(m1, w, high, low);
        low = uaddCarry(low, carry, more);
        product[i] = uaddCarry(product[i], low, again);
        carry = high + more + again;
    }
    uint f[5]; // the fraction, highest word first
    for (int i = 0; i < 5; i++) {
        f[i] = product[5 - i] << 2 | product[4 - i] >> 30;
    }
    bool up = f[0] >= 0x80000000u;
    quadrant = int(product[5] >> 30) + (up ? 1 : 0);
    precise double high = 0.0lf, low = 0.0lf, scale = up != negative_(x) ? -1.0lf : 1.0lf;
    for (int i = 0; i < 5; i++) {
        scale = scale * 2.3283064365386963e-10lf; // 2^-32
        precise double term = double(up ? ~f[i] : f[i]) * scale, sum = high + term;
        low = low + (term - (sum - high));
        high = sum;
    }
    if (negative_(x)) {
        quadrant = -quadrant;
    }
    return dvec2(high, low);
}

// Returns x - quadrant pi / 2, between -pi / 4 and pi / 4, in two parts; NaN for infinities.
dvec2 reduce_quadrant(const double x, out int quadrant)
{
    precise double high, low;
    if (magnitude_of(x) < 1e6lf) {
        // n has 20 bits. pi / 2 is split into two parts of 33 bits and a remainder.
        precise double n = rint_(x * 0.6366197723675814lf);
        precise double near = x - n * 1.5707963267341256lf;
        high = near - n * 6.077100506303966e-11lf;
        low = (near - high) - n * 6.077100506303966e-11lf;
        precise double last = n * 2.0222662487959506e-21lf, sum = high - last;
        low = low + ((high - sum) - last);
        high = sum;
        quadrant = int(n);
    } else {
        dvec2 part = reduce_large(x, quadrant);
        high = part.x * HALF_PI_WIDE;
        low = product_error(part.x, HALF_PI_WIDE, high);
        low = low + (part.x * HALF_PI_TAIL + part.y * HALF_PI_WIDE);
    }
    return finite_(x) ? dvec2(high, low) : dvec2(NOT_A_NUMBER_WIDE);
}

double sine_polynomial(const dvec2 parts)
{
    precise double r = parts.x, z = r * r;
    precise double p = -7.586682497157786e-13lf * z + 1.6058531370931902e-10lf;
    p = p * z - 2.505210623088241e-08lf;
    p = p * z + 2.755731921933466e-06lf;
    p = p * z - 0.0001984126984126506lf;
    p = p * z + 0.008333333333333331lf;
    p = p * z - 0.16666666666666666lf;
    precise double s = r + (r * z * p + parts.y);
    return s;
}

double cosine_polynomial(const dvec2 parts)
{
    precise double r = parts.x, z = r * r;
    precise double p = 4.7458637732829623e-14lf * z - 1.1470460749696862e-11lf;
    p = p * z + 2.0876755790210228e-09lf;
    p = p * z - 2.755731922140032e-07lf;
    p = p * z + 2.4801587301584642e-05lf;
    p = p * z - 0.0013888888888888887lf;
    p = p * z + 0.041666666666666664lf;
    precise double c = 1.0lf + (z * (z * p - 0.5lf) - r * parts.y);
    return c;
}

double sin_(const double x)
{
    int q;
    dvec2 r = reduce_quadrant(x, q);
    double s = (q & 1) != 0 ? cosine_polynomial(r) : sine_polynomial(r);
    return x == 0.0lf ? x : (q & 2) != 0 ? -s : s;
}

double cos_(const double x)
{
    int q;
    dvec2 r = reduce_quadrant(x, q);
    double c = (q & 1) != 0 ? sine_polynomial(r) : cosine_polynomial(r);
    return (q + 1 & 2) != 0 ? -c : c;
}

double tan_(const double x)
{
    int q;
    dvec2 r = reduce_quadrant(x, q);
    precise double s = sine_polynomial(r), c = cosine_polynomial(r);
    precise double t = (q & 1) != 0 ? -c / s : s / c;
    return x == 0.0lf ? x : t;
}

// The arctangent of z for 0 <= z <= 1; above 0.414 it is pi / 4 + atan((z - 1) / (z + 1)).
double atan_polynomial(const double z)
{
    bool far = z > 0.414lf;
    precise double w = far ? (z - 1.0lf) / (z + 1.0lf) : z, t = w * w;
    precise double p = 0.01628357235648259lf * t - 0.0345685906686069lf;
    p = p * t + 0.045515165635903104lf;
    p = p * t - 0.052304374642516874lf;
    p = p * t + 0.05878926715756726lf;
    p = p * t - 0.066664246872465lf;
    p = p * t + 0.07692296363979952lf;
    p = p * t - 0.09090908753118594lf;
    p = p * t + 0.11111111105147764lf;
    p = p * t - 0.14285714285659748lf;
    p = p * t + 0.19999999999999804lf;
    p = p * t - 0.3333333333333333lf;
    precise double tail = w * t * p, near = w + tail;
    precise double rest = 0.7853981633974483lf + (w + (tail + 3.061616997868383e-17lf));
    return far ? rest : near;
}

double atan_(const double x)
{
    precise double a = magnitude_of(x);
    bool steep = a > 1.0lf;
    precise double inverse = finite_(a) ? 1.0lf / a : 0.0lf;
    precise double r = atan_polynomial(steep ? inverse : a);
    precise double complement = HALF_PI_WIDE - (r - HALF_PI_TAIL);
    return nan_(x) || x == 0.0lf ? x : signed_(steep ? complement : r, x);
}

double atan2_(const double y, const double x)
{
    double ax = magnitude_of(x), ay = magnitude_of(y);
    bool steep = ay > ax;
    double small = steep ? ax : ay, large = steep ? ay : ax;
    precise double scale = large > 1e290lf ? 1e-30lf : large < 1e-290lf ? 1e30lf : 1.0lf;
    precise double quotient = finite_(large) ? (small * scale) / (large * scale) : 0.0lf;
    // If both are equal, including two zeros and two infinities, the ratio is 0 or 1.
    precise double r = atan_polynomial(small != large ? quotient : large == 0.0lf ? 0.0lf : 1.0lf);
    precise double complement = HALF_PI_WIDE - (r - HALF_PI_TAIL);
    r = steep ? complement : r;
    precise double supplement = 2.0lf * HALF_PI_WIDE - (r - 2.0lf * HALF_PI_TAIL);
    r = negative_(x) ? supplement : r;
    return nan_(x) || nan_(y) ? NOT_A_NUMBER_WIDE : signed_(r, y);
}

// The arcsine of a for 0 <= a <= 1/2; for larger a the arcsine of sqrt((1 - a) / 2), which is half
// the complement.
double asin_core(const double a)
{
    bool large = a > 0.5lf;
    precise double z = large ? (1.0lf - a) * 0.5lf : a * a;
    precise double s = large ? sqrt_(z) : a;
    precise double p = 0.030718768995191097lf * z - 0.024020544918554605lf;
    p = p * z + 0.022553563638202982lf;
    p = p * z + 0.000380853033290726lf;
    p = p * z + 0.00879500607648843lf;
    p = p * z + 0.008135829925501657lf;
    p = p * z + 0.009792751320201996lf;
    p = p * z + 0.011549086612987425lf;
    p = p * z + 0.013965009932053607lf;
    p = p * z + 0.017352757477819787lf;
    p = p * z + 0.02237215927967998lf;
    p = p * z + 0.030381944441363808lf;
    p = p * z + 0.0446428571428834lf;
    p = p * z + 0.07499999999999991lf;
    p = p * z + 0.16666666666666666lf;
    precise double r = s + s * z * p;
    return r;
}

double asin_(const double x)
{
    precise double a = magnitude_of(x), r = asin_core(a);
    precise double complement = HALF_PI_WIDE - (2.0lf * r - HALF_PI_TAIL);
    return nan_(x) || x == 0.0lf ? x
           : a > 1.0lf           ? NOT_A_NUMBER_WIDE
                                 : signed_(a > 0.5lf ? complement : r, x);
}

double acos_(const double x)
{
    precise double a = magnitude_of(x), r = asin_core(a), near_one = 2.0lf * r;
    precise double near_zero = HALF_PI_WIDE - (signed_(r, x) - HALF_PI_TAIL);
    precise double near_minus_one = 2.0lf * HALF_PI_WIDE - (near_one - 2.0lf * HALF_PI_TAIL);
    return nan_(x) || a > 1.0lf ? NOT_A_NUMBER_WIDE
           : a <= 0.5lf         ? near_zero
           : x < 0.0lf          ? near_minus_one
                                : near_one;
}

// ---- Error functions ----------------------------------------------------------------------------

// erf(x) for |x| <= 1.
double erf_small(const double x)
{
    precise double z = x * x;
    precise double p = -1.746609279318069e-14lf * z + 4.117309460970657e-13lf;
    p = p * z - 6.639294901316118e-12lf;
    p = p * z + 9.412558594992829e-11lf;
    p = p * z - 1.2289529419960295e-09lf;
    p = p * z + 1.4807117719731329e-08lf;
    p = p * z - 1.6365840648222765e-07lf;
    p = p * z + 1.6462114205798046e-06lf;
    p = p * z - 1.4925650353787866e-05lf;
    p = p * z + 0.00012055332981694495lf;
    p = p * z - 0.0008548327023449497lf;
    p = p * z + 0.005223977625442175lf;
    p = p * z - 0.026866170645131252lf;
    p = p * z + 0.11283791670955126lf;
    p = p * z - 0.37612638903183754lf;
    p = p * z + 0.1283791670955126lf;
    precise double r = x + x * p;
    return r;
}

// 1 - erf(a) for 1 <= a <= 27: e^(-a^2) / (a + 1/2) times a polynomial in (a - 3) / (a + 3).
double erfc_large(const double a)
{
    precise double t = (a - 3.0lf) / (a + 3.0lf);
    precise double p = -1.61791018937373e-08lf * t + 8.446856572709551e-08lf;
    p = p * t - 5.1246078994071646e-08lf;
    p = p * t - 3.499154741649874e-07lf;
    p = p * t + 1.8383802433292872e-07lf;
    p = p * t + 1.7556179432790662e-06lf;
    p = p * t - 3.730778846394702e-07lf;
    p = p * t - 1.0054925897173297e-05lf;
    p = p * t + 2.477359119384941e-06lf;
    p = p * t + 6.255028244779795e-05lf;
    p = p * t - 5.258038277037797e-05lf;
    p = p * t - 0.00038991617731095316lf;
    p = p * t + 0.0009443452302620043lf;
    p = p * t + 0.0012646959091922952lf;
    p = p * t - 0.011885257462292928lf;
    p = p * t + 0.034154013671990543lf;
    p = p * t - 0.0596368317075669lf;
    p = p * t + 0.06482257935138lf;
    p = p * t - 0.023781147176726372lf;
    p = p * t - 0.06781055306229058lf;
    p = p * t + 0.6265040291348648lf;
    precise double square = a * a, rest = product_error(a, a, square);
    precise double e = exp_(-square), r = (e - e * rest) * p / (a + 0.5lf);
    return r;
}

double erf_(const double x)
{
    double a = magnitude_of(x);
    if (!(a >= 1.0lf)) {
        return x == 0.0lf ? x : erf_small(x);
    }
    precise double r = 1.0lf - erfc_large(a < 6.0lf ? a : 6.0lf);
    return signed_(r, x);
}

// Refines the float result by Halley's method on erf, or on 1 - erf where erf is too flat.
double erfinv_(const double x)
{
    precise double p = magnitude_of(x), rest = 1.0lf - p;
    if (nan_(x) || !(p < 1.0lf)) {
        return p == 1.0lf ? signed_(INFINITY_WIDE, x) : NOT_A_NUMBER_WIDE;
    }
    precise double linear = x * 0.886226925452758lf; // sqrt(pi) / 2
    if (p < 1e-8lf) {
        return linear;
    }
    // Beyond the largest float below 1, start from the leading term of the tail.
    precise double y;
    if (p < 0.9999999lf) {
        y = double(erfinv_(float(p)));
    } else {
        precise double inner = rest * sqrt_(-log_(rest));
        y = sqrt_(-log_(inner));
    }
    for (int i = 0; i < 3; i++) {
        precise double error = y < 1.0lf ? erf_small(y) - p : rest - erfc_large(y);
        precise double step = error / (1.1283791670955126lf * exp_(-y * y));
        y = y - step / (1.0lf + y * step);
    }
    return signed_(y, x);
}
