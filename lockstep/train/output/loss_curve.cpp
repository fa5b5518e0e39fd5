// The loss chart as SVG text: points averaged to at most 800, a centred moving average, epoch marks, a metric, and axes
// with ticks, linear or in powers of ten.
#include <lockstep/base/files.h>
#include <lockstep/plan/report/markup.h>
#include <lockstep/train/output/loss_curve.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <utility>

namespace lockstep::train {
namespace {

double round_step(double raw) {
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10.0 * power;
}

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
                     attributes, plan::escaped_markup(words));
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

// The picture in pixels, and the parts of it that the axes enclose: the loss, and a metric below it.
constexpr double kWidth = 860, kHeight = 460, kHeightWithMetric = 660;
constexpr double kLeft = 70, kRight = 840;
struct Panel {
  double top;
  double bottom;
};
constexpr Panel kLossPanel{46, 404}, kMetricPanel{474, 604};
constexpr double kMuch = 50;              // times the least value: a linear axis would not show the small values
constexpr std::size_t kMostPoints = 800;  // more points than pixels: values are averaged first
constexpr std::string_view kPaleBlue = "#a9c4e6", kBlue = "#1f5fa8", kOrange = "#d9701a";

struct Plane {
  Axis x;
  Axis y;  ///< of powers of ten where it is logarithmic
  Panel panel = kLossPanel;
  bool logarithmic = false;

  Point at(Point p) const {
    const double height = logarithmic ? std::log10(p.y) : p.y;
    return {kLeft + (p.x - x.low) / (x.high - x.low) * (kRight - kLeft),
            panel.bottom - (height - y.low) / (y.high - y.low) * (panel.bottom - panel.top)};
  }
  double value_at_tick(double tick) const { return logarithmic ? std::pow(10.0, tick) : tick; }
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

// Centred means over about a thirtieth of the run, with fewer points near the ends: a mean of only the preceding points
// lags behind a falling loss, most of all at the start.
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

std::string axes(const Plane& plane, std::string_view name) {
  constexpr std::string_view kDark = "stroke=\"#444444\"";
  const auto [top, bottom] = plane.panel;
  std::string out;
  for (const double tick : plane.y.ticks) {
    const double value = plane.value_at_tick(tick);
    const double y = plane.at({plane.x.low, value}).y;
    out += svg::line({kLeft, y}, {kRight, y}, "stroke=\"#e4e4e4\"");
    out += svg::text({kLeft - 8, y + 4}, "end", tick_text(value));
  }
  for (const double tick : plane.x.ticks) {
    const double x = plane.at({tick, 1}).x;
    out += svg::line({x, bottom}, {x, bottom + 5}, kDark);
    out += svg::text({x, bottom + 20}, "middle", tick_text(tick));
  }
  out += svg::line({kLeft, bottom}, {kRight, bottom}, kDark) + svg::line({kLeft, top}, {kLeft, bottom}, kDark);
  out += svg::text({(kLeft + kRight) / 2, bottom + 42}, "middle", "step");
  const double middle = (top + bottom) / 2;
  return out + svg::text({20, middle}, "middle", name, fmt::format("transform=\"rotate(-90 20 {:.1f})\"", middle));
}

// The steps at which the epoch of the metrics changes; only as many as there is room for.
std::string epoch_marks(const Plane& plane, std::span<const MetricsLine> lines) {
  constexpr double kRoom = 60;
  std::string out;
  double free_from = kLeft;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].epoch == lines[i - 1].epoch) continue;
    const double x = plane.at({static_cast<double>(lines[i].step), 1}).x;
    if (x < free_from) continue;
    const auto [top, bottom] = plane.panel;
    out += svg::line({x, top}, {x, bottom}, "stroke=\"#999999\" stroke-dasharray=\"3 4\"");
    out += svg::text({x + 3, top + 10}, "start", fmt::format("epoch {}", lines[i].epoch),
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
  const double y = kLossPanel.top - 12;
  const auto sample = [&](double x, std::string_view color, int width) {
    return svg::line({x, y - 4}, {x + 25, y - 4}, fmt::format("stroke=\"{}\" stroke-width=\"{}\"", color, width));
  };
  std::string out = sample(520, kPaleBlue, 1) + svg::text({550, y}, "start", "each step");
  out += sample(620, kBlue, 2) + svg::text({650, y}, "start", "smoothed");
  if (!with_evaluations) return out;
  return out + svg::dot({733, y - 4}, kOrange) + svg::text({742, y}, "start", "evaluation");
}

/// An axis of powers of ten that covers low..high, both above 0: its numbers are their exponents.
Axis axis_of_powers(double low, double high) {
  constexpr double kSlack = 1e-9;
  Axis axis{std::floor(std::log10(low) + kSlack), std::ceil(std::log10(high) - kSlack), {}};
  if (!(axis.high > axis.low)) axis.high = axis.low + 1;
  for (double exponent = axis.low; exponent <= axis.high; ++exponent) axis.ticks.push_back(exponent);
  return axis;
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
  const auto x = make_axis(std::min(shown.front().x, evaluated.empty() ? last : evaluated.front().x), last, 8, false);
  if (low > 0 && high >= kMuch * low) {
    return {.x = x, .y = axis_of_powers(low, high), .logarithmic = true};
  }
  // Losses fall towards zero: show it unless that would squeeze the curve.
  if (low > 0 && low < 0.5 * high) low = 0;
  return {.x = x, .y = make_axis(low, high, 6, true)};
}

/// The metric that is drawn below the loss: accuracy, or the first by name; empty: there is none.
std::string drawn_metric(std::span<const Evaluation> evaluations) {
  for (const auto& evaluation : evaluations) {
    if (evaluation.metrics.contains("accuracy")) return "accuracy";
    if (!evaluation.metrics.empty()) return evaluation.metrics.begin()->first;
  }
  return "";
}

/// The metric is drawn over the same steps as the loss.
std::string metric_plot(const Axis& steps, std::span<const Evaluation> evaluations, const std::string& metric) {
  std::vector<Point> points;
  for (const auto& evaluation : evaluations) {
    const auto found = evaluation.metrics.find(metric);
    if (found == evaluation.metrics.end() || !std::isfinite(found->second)) continue;
    points.push_back({static_cast<double>(evaluation.step), found->second});
  }
  if (points.empty()) return "";
  const auto [low, high] = std::ranges::minmax(points, {}, &Point::y);
  const Plane plane{.x = steps, .y = make_axis(low.y, high.y, 3, true), .panel = kMetricPanel};
  std::string out = axes(plane, metric) + curve(plane, points, kOrange, 1);
  for (const auto& point : points) out += svg::dot(plane.at(point), kOrange);
  return out;
}

std::string plot(std::span<const MetricsLine> lines, std::span<const Evaluation> evaluations) {
  std::vector<Point> points;
  for (const auto& metrics : lines) points.push_back({static_cast<double>(metrics.step), metrics.loss});
  const auto shown = thinned(points);
  const auto evaluated = evaluation_points(evaluations);
  const auto plane = make_plane(shown, evaluated);
  std::string out = axes(plane, "loss") + epoch_marks(plane, lines) + curve(plane, shown, kPaleBlue, 1) +
                    curve(plane, thinned(smoothed(points)), kBlue, 2);
  for (const auto& p : evaluated) out += svg::dot(plane.at(p), kOrange);
  out += legend(!evaluated.empty());
  const auto metric = drawn_metric(evaluations);
  return metric.empty() ? out : out + metric_plot(plane.x, evaluations, metric);
}

}  // namespace

Axis make_axis(double low, double high, int wanted, bool extend) {
  if (!(high > low)) {
    const double around = low == 0 ? 1.0 : std::abs(low) * 0.1;
    low -= around;
    high += around;
  }
  const double step = round_step((high - low) / wanted);
  constexpr double kSlack = 1e-9;  // a tick that misses the end by rounding only is a tick
  if (extend) {
    low = std::floor(low / step + kSlack) * step;
    high = std::ceil(high / step - kSlack) * step;
  }
  Axis axis{low, high, {}};
  const auto first = static_cast<std::int64_t>(std::ceil(low / step - kSlack));
  const auto last = static_cast<std::int64_t>(std::floor(high / step + kSlack));
  for (auto i = first; i <= last; ++i) axis.ticks.push_back(static_cast<double>(i) * step);
  return axis;
}

std::string tick_text(double value) {
  if (value == 0) return "0";
  if (std::abs(value) >= 10000) return fmt::format("{:.6g}k", value / 1000);
  return fmt::format("{:.6g}", value);
}

std::string draw_loss_curve(std::span<const MetricsLine> lines, std::span<const Evaluation> evaluations,
                            std::string_view title) {
  const auto head = svg::text({kLeft, 26}, "start", title, "font-size=\"15\"");
  if (lines.empty()) {
    return svg::picture(kWidth, kHeight, head + svg::text({kWidth / 2, kHeight / 2}, "middle", "no step was logged"));
  }
  const bool with_metric = !drawn_metric(evaluations).empty();
  return svg::picture(kWidth, with_metric ? kHeightWithMetric : kHeight, head + plot(lines, evaluations));
}

LossCurve::LossCurve(std::filesystem::path metrics, std::filesystem::path picture, std::string title,
                     std::vector<Evaluation> evaluations)
    : metrics_(std::move(metrics)),
      picture_(std::move(picture)),
      title_(std::move(title)),
      evaluations_(std::move(evaluations)),
      informs_(picture_.filename().string()) {}

void LossCurve::after_epoch(RunView& run, const EpochReport&) {
  if (std::chrono::steady_clock::now() >= next_) draw(run);
}

void LossCurve::after_evaluation(RunView&, const Evaluation& evaluation) {
  evaluations_.push_back(evaluation);
  evaluations_.back().pictures.clear();
}

void LossCurve::after_run(RunView& run) { draw(run); }

void LossCurve::draw(const RunView& run) {
  const auto begin = std::chrono::steady_clock::now();
  informs_.write(
      run, [this] { write_file_atomically(picture_, draw_loss_curve(read_metrics(metrics_), evaluations_, title_)); });
  const auto end = std::chrono::steady_clock::now();
  next_ = end + 100 * (end - begin);
}

}  // namespace lockstep::train
