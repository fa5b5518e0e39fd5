// Synthetic MNIST digits: 5 x 7 glyphs, blurred by interpolation, slanted, turned and scaled at random.
#include <lockstep/data/random.h>
#include <lockstep/data/synthetic_pictures.h>

#include <array>
#include <string_view>

namespace lockstep::data {
namespace {

constexpr int kSide = 28;
constexpr int kGlyphWidth = 5;
constexpr int kGlyphHeight = 7;
constexpr std::uint64_t kPictureKey = 2;

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

}  // namespace

void draw_mnist(std::uint64_t seed, Split split, std::int64_t index, int label, std::span<std::uint8_t> pixels) {
  RandomStream random(seed, RandomPurpose::synthesize,
                      {kPictureKey, static_cast<std::uint64_t>(split), static_cast<std::uint64_t>(index)});
  const Point centre{random.uniform(12, 16), random.uniform(12, 16)};
  const Turn turn(random.uniform(-0.12, 0.12));
  const double slant = random.uniform(-0.15, 0.3);
  const double cell_width = random.uniform(2.3, 3.3);
  const double cell_height = random.uniform(2.4, 3.1);
  const double pen = random.uniform(0.2, 0.42);  // a lower threshold makes thicker strokes
  const double brightness = random.uniform(200, 255);

  const std::string_view glyph = kGlyphs[static_cast<std::size_t>(label)];
  auto next = pixels.begin();
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const Point turned = turn({x + 0.5 - centre.x, y + 0.5 - centre.y});
      const Point cell{(turned.x + slant * turned.y) / cell_width, turned.y / cell_height};
      const double stroke = unit((blurred_ink(glyph, cell) - pen) / 0.35);
      // Noise is added to the ink only: MNIST's background is 0.
      const double grain = 1 - 0.2 * random.uniform();
      *next++ = to_byte(brightness * stroke * grain);
    }
  }
}

}  // namespace lockstep::data
