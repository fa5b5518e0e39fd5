#include <lockstep/base/markup.h>
#include <lockstep/train/svg.h>

#include <fmt/format.h>

#include <iterator>

namespace lockstep::train::svg {

std::string line(Point from, Point to, std::string_view attributes) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", from.x, from.y, to.x, to.y,
                     attributes);
}

std::string polyline(std::span<const Point> points, std::string_view color, double width) {
  std::string out = fmt::format(
      "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\" points=\"", color, width);
  for (const auto& p : points) fmt::format_to(std::back_inserter(out), "{:.1f},{:.1f} ", p.x, p.y);
  return out + "\"/>\n";
}

std::string dot(Point center, std::string_view color) {
  return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", center.x, center.y, color);
}

std::string text(Point at, std::string_view anchor, std::string_view words, std::string_view attributes) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", at.x, at.y, anchor,
                     attributes, escaped_markup(words));
}

std::string picture(double width, double height, std::string_view content) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"#333333\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n{2}</svg>\n",
      width, height, content);
}

}  // namespace lockstep::train::svg
