// Synthetic pictures. MNIST digits: 5 x 7 glyphs, blurred by interpolation, slanted, turned and scaled at random.
// CIFAR-10 pictures: ten shapes as signed distances, in colours that overlap between classes, with noise. Only +, -, *,
// / on doubles and integer arithmetic, so that the bytes do not depend on a math library (this folder is compiled with
// -ffp-contract=off).
#include <lockstep/data/sampler.h>
#include <lockstep/data/synthesize.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep::data {
namespace {

struct Point {
  double x = 0;
  double y = 0;
};

/// A rotation without sine and cosine: given by the tangent t of half the angle, which is a rotation for every t.
struct Turn {
  explicit Turn(double half_tangent)
      : cosine((1 - half_tangent * half_tangent) / (1 + half_tangent * half_tangent)),
        sine(2 * half_tangent / (1 + half_tangent * half_tangent)) {}

  Point operator()(Point p) const { return {cosine * p.x - sine * p.y, sine * p.x + cosine * p.y}; }

  double cosine;
  double sine;
};

double magnitude(double x) { return x < 0 ? -x : x; }

double unit(double x) { return std::clamp(x, 0.0, 1.0); }

std::uint8_t to_byte(double x) { return static_cast<std::uint8_t>(std::clamp(x + 0.5, 0.0, 255.0)); }

constexpr int kDigitSide = 28;
constexpr int kGlyphWidth = 5;
constexpr int kGlyphHeight = 7;
constexpr std::uint64_t kDigitKey = 2;

// Row by row, '#' is ink.
constexpr std::array<std::string_view, 10> kGlyphs{
    " ### "
    "#   #"
    "#   #"
    "#   #"
    "#   #"
    "#   #"
    " ### ",
    "  #  "
    " ##  "
    "# #  "
    "  #  "
    "  #  "
    "  #  "
    "#####",
    " ### "
    "#   #"
    "    #"
    "   # "
    "  #  "
    " #   "
    "#####",
    " ### "
    "#   #"
    "    #"
    "  ## "
    "    #"
    "#   #"
    " ### ",
    "   # "
    "  ## "
    " # # "
    "#  # "
    "#####"
    "   # "
    "   # ",
    "#####"
    "#    "
    "#### "
    "    #"
    "    #"
    "#   #"
    " ### ",
    "  ## "
    " #   "
    "#    "
    "#### "
    "#   #"
    "#   #"
    " ### ",
    "#####"
    "    #"
    "   # "
    "   # "
    "  #  "
    "  #  "
    "  #  ",
    " ### "
    "#   #"
    "#   #"
    " ### "
    "#   #"
    "#   #"
    " ### ",
    " ### "
    "#   #"
    "#   #"
    " ####"
    "    #"
    "   # "
    " ##  "};

double ink(std::string_view glyph, int x, int y) {
  if (x < 0 || y < 0 || x >= kGlyphWidth || y >= kGlyphHeight) return 0;
  const int cell = y * kGlyphWidth + x;
  return glyph[static_cast<std::size_t>(cell)] == '#' ? 1 : 0;
}

// The glyph at a point, by bilinear interpolation between the centres of its cells, which blurs the strokes. `p` is in
// cells from the centre.
double blurred_ink(std::string_view glyph, Point p) {
  const double gx = p.x + (kGlyphWidth - 1) / 2.0;
  const double gy = p.y + (kGlyphHeight - 1) / 2.0;
  if (gx <= -1 || gy <= -1 || gx >= kGlyphWidth || gy >= kGlyphHeight) return 0;
  const int x = static_cast<int>(gx + 1) - 1;
  const int y = static_cast<int>(gy + 1) - 1;
  const double fx = gx - x;
  const double fy = gy - y;
  return (1 - fy) * ((1 - fx) * ink(glyph, x, y) + fx * ink(glyph, x + 1, y)) +
         fy * ((1 - fx) * ink(glyph, x, y + 1) + fx * ink(glyph, x + 1, y + 1));
}

constexpr int kShapeSide = 32;
constexpr std::uint64_t kShapeKey = 1;

using Colour = std::array<double, 3>;

// Hue, saturation and value in [0, 1) to red, green and blue in [0, 1].
Colour from_hsv(double hue, double saturation, double value) {
  Colour colour{};
  for (std::size_t c = 0; c < 3; ++c) {
    // The distance of the hue to red, green or blue on the circle determines that component.
    const double distance = magnitude(hue - static_cast<double>(c) / 3);
    const double share = unit(2 - 6 * std::min(distance, 1 - distance));
    colour[c] = value * (1 - saturation + saturation * share);
  }
  return colour;
}

double box(Point p, double half_width, double half_height) {
  return std::max(magnitude(p.x) - half_width, magnitude(p.y) - half_height);
}

double disc(Point p, double radius) { return (p.x * p.x + p.y * p.y - radius * radius) / (2 * radius); }

double plus(Point p) { return std::min(box(p, 0.28, 1), box(p, 1, 0.28)); }

double stripes(double along, Point p) {
  return std::max(box(p, 0.95, 0.95),
                  std::min({magnitude(along), magnitude(along - 0.75), magnitude(along + 0.75)}) - 0.2);
}

double checks(Point p) {
  const double to_axis = std::min(magnitude(p.x), magnitude(p.y));
  const bool inked = (p.x < 0) == (p.y < 0);
  return std::max(box(p, 0.95, 0.95), inked ? -to_axis : to_axis);
}

// The approximate signed distance (negative inside) from `p` to the shape of a class, which fills [-1, 1] x [-1, 1].
// Flips keep the class: all shapes except the checks are mirror-symmetric, and flipped checks look like no other class.
double distance_to_shape(int label, Point p) {
  switch (label) {
    case 0: return disc(p, 1);
    case 1: return std::max(disc(p, 1), -disc(p, 0.55));                         // ring
    case 2: return box(p, 0.85, 0.85);                                           // square
    case 3: return std::max(box(p, 0.85, 0.85), -box(p, 0.5, 0.5));              // frame
    case 4: return std::max(p.y - 0.8, (2 * magnitude(p.x) - p.y - 1) / 2.236);  // triangle
    case 5: return plus(p);                                                      // upright cross
    case 6: return plus({0.7071 * (p.x - p.y), 0.7071 * (p.x + p.y)});           // diagonal cross
    case 7: return stripes(p.y, p);                                              // horizontal stripes
    case 8: return stripes(p.x, p);                                              // vertical stripes
    default: return checks(p);
  }
}

struct Scene {
  Scene(RandomStream& random, int label)
      : centre{random.uniform(12, 20), random.uniform(12, 20)},
        radius(random.uniform(7.5, 12)),
        turn(random.uniform(-0.13, 0.13)),
        shade_x(random.uniform(-0.3, 0.3)),
        shade_y(random.uniform(-0.3, 0.3)) {
    // Neighbouring classes overlap in hue, so colour alone does not identify the class.
    const double hue = label / 10.0 + random.uniform(-0.13, 0.13);
    front = from_hsv(hue < 0 ? hue + 1 : (hue >= 1 ? hue - 1 : hue), random.uniform(0.4, 0.95), random.uniform(0.6, 1));
    back = from_hsv(random.uniform(), random.uniform(0, 0.6), random.uniform(0.1, 0.5));
  }

  Point centre;
  double radius;
  Turn turn;
  double shade_x;
  double shade_y;
  Colour front;
  Colour back;
};

// Noise of mean 0 and standard deviation `sigma`: the sum of four uniform bytes is close to normal.
double noise(RandomStream& random, double sigma) {
  const std::uint64_t bits = random.next();
  const auto sum = static_cast<double>((bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24 & 255));
  return (sum - 510) / 147.8 * sigma;
}

}  // namespace

void draw_mnist(std::uint64_t seed, Split split, std::int64_t index, int label, std::span<std::uint8_t> pixels) {
  RandomStream random(seed, RandomPurpose::synthesize,
                      {kDigitKey, static_cast<std::uint64_t>(split), static_cast<std::uint64_t>(index)});
  const Point centre{random.uniform(12, 16), random.uniform(12, 16)};
  const Turn turn(random.uniform(-0.12, 0.12));
  const double slant = random.uniform(-0.15, 0.3);
  const double cell_width = random.uniform(2.3, 3.3);
  const double cell_height = random.uniform(2.4, 3.1);
  const double pen = random.uniform(0.2, 0.42);  // a lower threshold makes thicker strokes
  const double brightness = random.uniform(200, 255);

  const std::string_view glyph = kGlyphs[static_cast<std::size_t>(label)];
  auto next = pixels.begin();
  for (int y = 0; y < kDigitSide; ++y) {
    for (int x = 0; x < kDigitSide; ++x) {
      const Point turned = turn({x + 0.5 - centre.x, y + 0.5 - centre.y});
      const Point cell{(turned.x + slant * turned.y) / cell_width, turned.y / cell_height};
      const double stroke = unit((blurred_ink(glyph, cell) - pen) / 0.35);
      // Noise is added to the ink only: MNIST's background is 0.
      const double grain = 1 - 0.2 * random.uniform();
      *next++ = to_byte(brightness * stroke * grain);
    }
  }
}

void draw_cifar10(std::uint64_t seed, Split split, std::int64_t index, int label, std::span<std::uint8_t> pixels) {
  RandomStream random(seed, RandomPurpose::synthesize,
                      {kShapeKey, static_cast<std::uint64_t>(split), static_cast<std::uint64_t>(index)});
  const Scene scene(random, label);
  for (int y = 0; y < kShapeSide; ++y) {
    for (int x = 0; x < kShapeSide; ++x) {
      const Point turned = scene.turn({x + 0.5 - scene.centre.x, y + 0.5 - scene.centre.y});
      const Point local{turned.x / scene.radius, turned.y / scene.radius};
      const double cover = unit(0.5 - distance_to_shape(label, local) * scene.radius);
      const double shade = 1 + scene.shade_x * (x / 16.0 - 1) + scene.shade_y * (y / 16.0 - 1);
      for (std::size_t c = 0; c < 3; ++c) {
        const double clean = shade * (cover * scene.front[c] + (1 - cover) * scene.back[c]);
        pixels[c * kShapeSide * kShapeSide + static_cast<std::size_t>(y * kShapeSide + x)] =
            to_byte(255 * clean + noise(random, 14));
      }
    }
  }
}

}  // namespace lockstep::data
