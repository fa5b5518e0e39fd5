// Synthetic CIFAR-10 pictures: ten shapes as signed distances, in colours that overlap between classes, with noise.
#include <lockstep/data/random.h>
#include <lockstep/data/synthetic_pictures.h>

#include <algorithm>
#include <array>

namespace lockstep::data {
namespace {

constexpr int kSide = 32;
constexpr std::uint64_t kPictureKey = 1;

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

void draw_cifar10(std::uint64_t seed, Split split, std::int64_t index, int label, std::span<std::uint8_t> pixels) {
  RandomStream random(seed, RandomPurpose::synthesize,
                      {kPictureKey, static_cast<std::uint64_t>(split), static_cast<std::uint64_t>(index)});
  const Scene scene(random, label);
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const Point turned = scene.turn({x + 0.5 - scene.centre.x, y + 0.5 - scene.centre.y});
      const Point local{turned.x / scene.radius, turned.y / scene.radius};
      const double cover = unit(0.5 - distance_to_shape(label, local) * scene.radius);
      const double shade = 1 + scene.shade_x * (x / 16.0 - 1) + scene.shade_y * (y / 16.0 - 1);
      for (std::size_t c = 0; c < 3; ++c) {
        const double clean = shade * (cover * scene.front[c] + (1 - cover) * scene.back[c]);
        pixels[c * kSide * kSide + static_cast<std::size_t>(y * kSide + x)] = to_byte(255 * clean + noise(random, 14));
      }
    }
  }
}

}  // namespace lockstep::data
