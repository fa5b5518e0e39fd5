#include <lockstep/base/atomic_file.h>
#include <lockstep/base/markup.h>
#include <lockstep/train/output/axis.h>
#include <lockstep/train/output/loss_curve.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace lockstep::train {
namespace {

// The elements of charts, as text.
namespace svg {

struct Point {
  double x = 0;
  double y = 0;
};

/// `attributes` are further attributes in SVG's syntax, e.g. `stroke="#444444"`.
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

/// `anchor` is start, middle or end; `words` are escaped.
std::string text(Point at, std::string_view anchor, std::string_view words, std::string_view attributes = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", at.x, at.y, anchor,
                     attributes, escaped_markup(words));
}

/// A whole file of `width` x `height` pixels with a white ground.
std::string picture(double width, double height, std::string_view content) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"#333333\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n{2}</svg>\n",
      width, height, content);
}

}  // namespace svg

using svg::Point;

// The picture in pixels, and the part of it that the axes enclose.
constexpr double kWidth = 860, kHeight = 460;
constexpr double kLeft = 70, kRight = 840, kTop = 46, kBottom = 404;
constexpr std::size_t kMostPoints = 800;  // more than there are pixels: values are averaged first
constexpr std::string_view kPaleBlue = "#a9c4e6", kBlue = "#1f5fa8", kOrange = "#d9701a";

struct Plane {
  Axis x;
  Axis y;

  Point at(Point p) const {
    return {kLeft + (p.x - x.low) / (x.high - x.low) * (kRight - kLeft),
            kBottom - (p.y - y.low) / (y.high - y.low) * (kBottom - kTop)};
  }
};

// Means of equal runs of points, so that at most kMostPoints are left.
std::vector<Point> thinned(const std::vector<Point>& points) {
  const std::size_t run = (points.size() + kMostPoints - 1) / kMostPoints;
  if (run <= 1) return points;
  std::vector<Point> out;
  for (std::size_t begin = 0; begin < points.size(); begin += run) {
    const std::size_t end = std::min(points.size(), begin + run);
    Point sum;
    for (std::size_t i = begin; i < end; ++i) sum = {sum.x + points[i].x, sum.y + points[i].y};
    const auto count = static_cast<double>(end - begin);
    out.push_back({sum.x / count, sum.y / count});
  }
  return out;
}

// Means over about a thirtieth of the run, of as many points before as after each, so fewer towards the ends: a mean of
// what came before alone lags behind a loss that falls, most of all at the start.
std::vector<Point> smoothed(const std::vector<Point>& points) {
  std::vector<double> sums{0};
  for (const auto& p : points) sums.push_back(sums.back() + p.y);
  const std::size_t widest = std::max<std::size_t>(1, points.size() / 60);
  std::vector<Point> out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t side = std::min({widest, i, points.size() - 1 - i});
    out.push_back({points[i].x, (sums[i + side + 1] - sums[i - side]) / static_cast<double>(2 * side + 1)});
  }
  return out;
}

std::string curve(const Plane& plane, const std::vector<Point>& points, std::string_view color, double width) {
  std::vector<Point> pixels;
  pixels.reserve(points.size());
  for (const auto& p : points) pixels.push_back(plane.at(p));
  return svg::polyline(pixels, color, width);
}

std::string axes(const Plane& plane) {
  constexpr std::string_view kDark = "stroke=\"#444444\"";
  std::string out;
  for (const double tick : plane.y.ticks) {
    const double y = plane.at({plane.x.low, tick}).y;
    out += svg::line({kLeft, y}, {kRight, y}, "stroke=\"#e4e4e4\"");
    out += svg::text({kLeft - 8, y + 4}, "end", tick_text(tick));
  }
  for (const double tick : plane.x.ticks) {
    const double x = plane.at({tick, plane.y.low}).x;
    out += svg::line({x, kBottom}, {x, kBottom + 5}, kDark);
    out += svg::text({x, kBottom + 20}, "middle", tick_text(tick));
  }
  out += svg::line({kLeft, kBottom}, {kRight, kBottom}, kDark) + svg::line({kLeft, kTop}, {kLeft, kBottom}, kDark);
  out += svg::text({(kLeft + kRight) / 2, kHeight - 14}, "middle", "step");
  const double middle = (kTop + kBottom) / 2;
  return out + svg::text({20, middle}, "middle", "loss", fmt::format("transform=\"rotate(-90 20 {:.1f})\"", middle));
}

// Where the epoch of the metrics changes; only as many as there is room for.
std::string epoch_marks(const Plane& plane, std::span<const MetricsLine> lines) {
  constexpr double kRoom = 60;
  std::string out;
  double free_from = kLeft;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].epoch == lines[i - 1].epoch) continue;
    const double x = plane.at({static_cast<double>(lines[i].step), 0}).x;
    if (x < free_from) continue;
    out += svg::line({x, kTop}, {x, kBottom}, "stroke=\"#999999\" stroke-dasharray=\"3 4\"");
    out += svg::text({x + 3, kTop + 10}, "start", fmt::format("epoch {}", lines[i].epoch),
                     "font-size=\"10\" fill=\"#777777\"");
    free_from = x + kRoom;
  }
  return out;
}

std::vector<Point> evaluation_points(std::span<const Evaluation> evaluations) {
  std::vector<Point> out;
  for (const auto& e : evaluations) out.push_back({static_cast<double>(e.step), e.loss});
  return out;
}

std::string legend(bool with_evaluations) {
  const double y = kTop - 12;
  const auto sample = [&](double x, std::string_view color, int width) {
    return svg::line({x, y - 4}, {x + 25, y - 4}, fmt::format("stroke=\"{}\" stroke-width=\"{}\"", color, width));
  };
  std::string out = sample(520, kPaleBlue, 1) + svg::text({550, y}, "start", "each step");
  out += sample(620, kBlue, 2) + svg::text({650, y}, "start", "smoothed");
  if (!with_evaluations) return out;
  return out + svg::dot({733, y - 4}, kOrange) + svg::text({742, y}, "start", "evaluation");
}

Plane make_plane(const std::vector<Point>& shown, const std::vector<Point>& evaluated) {
  double low = shown.front().y, high = shown.front().y, last = shown.back().x;
  for (const auto* points : {&shown, &evaluated}) {
    for (const auto& p : *points) {
      low = std::min(low, p.y);
      high = std::max(high, p.y);
      last = std::max(last, p.x);
    }
  }
  // Losses fall towards zero: show it unless that would squeeze the curve.
  if (low > 0 && low < 0.5 * high) low = 0;
  return {make_axis(std::min(shown.front().x, evaluated.empty() ? last : evaluated.front().x), last, 8, false),
          make_axis(low, high, 6, true)};
}

std::string plot(std::span<const MetricsLine> lines, std::span<const Evaluation> evaluations) {
  std::vector<Point> points;
  for (const auto& metrics : lines) points.push_back({static_cast<double>(metrics.step), metrics.loss});
  const auto shown = thinned(points);
  const auto evaluated = evaluation_points(evaluations);
  const auto plane = make_plane(shown, evaluated);
  std::string out = axes(plane) + epoch_marks(plane, lines) + curve(plane, shown, kPaleBlue, 1) +
                    curve(plane, thinned(smoothed(points)), kBlue, 2);
  for (const auto& p : evaluated) out += svg::dot(plane.at(p), kOrange);
  return out + legend(!evaluated.empty());
}

}  // namespace

std::string draw_loss_curve(std::span<const MetricsLine> lines, std::span<const Evaluation> evaluations,
                            std::string_view title) {
  const auto head = svg::text({kLeft, 26}, "start", title, "font-size=\"15\"");
  if (lines.empty()) {
    return svg::picture(kWidth, kHeight, head + svg::text({kWidth / 2, kHeight / 2}, "middle", "no step was logged"));
  }
  return svg::picture(kWidth, kHeight, head + plot(lines, evaluations));
}

LossCurve::LossCurve(std::filesystem::path metrics, std::filesystem::path picture, std::string title,
                     std::vector<Evaluation> evaluations)
    : metrics_(std::move(metrics)),
      picture_(std::move(picture)),
      title_(std::move(title)),
      evaluations_(std::move(evaluations)) {}

void LossCurve::after_epoch(RunView&, const EpochReport&) {
  if (std::chrono::steady_clock::now() >= next_) draw();
}

void LossCurve::after_evaluation(RunView&, const Evaluation& evaluation) {
  evaluations_.push_back(evaluation);
  evaluations_.back().pictures.clear();
}

void LossCurve::after_run(RunView&) { draw(); }

void LossCurve::draw() {
  const auto begin = std::chrono::steady_clock::now();
  write_file_atomically(picture_, draw_loss_curve(read_metrics(metrics_), evaluations_, title_));
  const auto end = std::chrono::steady_clock::now();
  next_ = end + 100 * (end - begin);
}

}  // namespace lockstep::train
