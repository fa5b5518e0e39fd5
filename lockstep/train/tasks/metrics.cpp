// The metrics of Lockstep. auc has rows of output and class, gathered from all ranks and sorted once.
#include <lockstep/base/error.h>
#include <lockstep/data/roc_area.h>
#include <lockstep/train/task.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

class RocArea final : public Metric {
 public:
  Measures measure(const at::Tensor&, const at::Tensor&) const override { return {}; }
  Values values(const Sums&) const override { return {}; }

  at::Tensor rows(const at::Tensor& output, const at::Tensor& target) const override {
    const bool is_one_number = output.dim() == 1 || (output.dim() == 2 && output.size(1) == 1);
    if (!is_one_number || output.numel() != target.numel()) {
      fail(ErrorKind::config, "metrics",
           "auc compares outputs [N] or [N, 1] with as many targets 0 or 1, and they are [{}] and [{}]; use it with "
           "task.name binary_classification, or another of two classes and one output",
           fmt::join(output.sizes(), ", "), fmt::join(target.sizes(), ", "));
    }
    const auto classes = target.reshape({-1}).to(torch::kFloat);
    const auto wrong = classes.masked_select(classes.ne(0).logical_and(classes.ne(1)));
    if (wrong.numel() > 0) {
      fail(ErrorKind::data, "metrics", "auc needs targets 0 or 1, and one is {}", wrong[0].item<float>());
    }
    return torch::stack({output.reshape({-1}).to(torch::kFloat), classes}, 1);
  }

  Values values_of_rows(const at::Tensor& rows) const override {
    const auto all = rows.to(torch::kCPU).contiguous();
    const auto* numbers = all.data_ptr<float>();
    std::vector<data::ScoredSample> samples;
    samples.reserve(static_cast<std::size_t>(all.size(0)));
    for (std::int64_t i = 0; i < all.size(0); ++i) samples.push_back({numbers[2 * i], numbers[2 * i + 1] == 1});
    const auto area = data::roc_area(std::move(samples));
    return area ? Values{{"auc", *area}} : Values{};
  }
};

/// Outputs [N, C] and targets [N] that count.
struct OfClasses {
  at::Tensor output;
  at::Tensor target;
};

OfClasses of_classes(const at::Tensor& output, const at::Tensor& target, std::string_view metric) {
  const bool fits = output.dim() == target.dim() + 1 && !target.is_floating_point() &&
                    output.sizes().slice(0, static_cast<std::size_t>(target.dim())) == target.sizes();
  if (!fits) {
    fail(ErrorKind::config, "metrics",
         "{} compares outputs [..., C] with classes [...] as whole numbers, and they are [{}] and [{}]", metric,
         fmt::join(output.sizes(), ", "), fmt::join(target.sizes(), ", "));
  }
  const auto classes = output.size(-1);
  const auto flat = target.reshape({-1});
  const auto valid = flat.ge(0);
  const auto kept = flat.masked_select(valid);
  if (kept.numel() > 0 && kept.max().item<std::int64_t>() >= classes) {
    fail(ErrorKind::data, "metrics", "a target is class {}, and the model has outputs for {} classes",
         kept.max().item<std::int64_t>(), classes);
  }
  return {output.reshape({-1, classes}).index({valid}), kept};
}

void require_equal_shapes(const at::Tensor& output, const at::Tensor& target, std::string_view metric) {
  if (output.sizes() == target.sizes()) return;
  fail(ErrorKind::config, "metrics", "{} compares outputs and targets of equal shapes, and they are [{}] and [{}]",
       metric, fmt::join(output.sizes(), ", "), fmt::join(target.sizes(), ", "));
}

struct TopKOptions {
  std::int64_t k = 5;
};
void describe(ConfigFields& fields, TopKOptions& options) {
  fields.field("k", options.k, between(1, 1e6), "the target is among so many largest outputs");
}

class TopK final : public Metric {
 public:
  TopK(std::int64_t k, std::string name) : k_(k), name_(std::move(name)) {}

  Measures measure(const at::Tensor& output, const at::Tensor& target) const override {
    const auto of = of_classes(output, target, name_);
    const auto k = std::min(k_, of.output.size(1));
    const auto hit =
        k == 1 ? of.output.argmax(1) == of.target : std::get<1>(of.output.topk(k, 1)).eq(of.target.unsqueeze(1)).any(1);
    return {{"hits", sum_of(hit)}};
  }

  Values values(const Sums& sums) const override {
    const auto& hits = sums.at("hits");
    if (hits.count == 0) return {};
    return {{name_, hits.sum / hits.count}};
  }

 private:
  std::int64_t k_;
  std::string name_;
};

/// The confusion matrix: counts by target class (row) and predicted class (column).
at::Tensor confusion_of(const OfClasses& of) {
  const auto classes = of.output.size(1);
  const auto pairs = of.target * classes + of.output.argmax(1);
  return torch::bincount(pairs.reshape({-1}), {}, classes * classes).reshape({classes, classes});
}

struct AverageOptions {
  std::string average = "macro";
};
void describe(ConfigFields& fields, AverageOptions& options) {
  fields.field("average", options.average, one_of({"macro", "micro", "each"}),
               "macro: the mean over the classes that occur; micro: of all decisions; each: a value a class");
}

/// Precision, recall or F1 of the classes, from true positives, decisions and targets of each.
class ClassQuality final : public Metric {
 public:
  ClassQuality(std::string name, std::string average) : name_(std::move(name)), average_(std::move(average)) {}

  Measures measure(const at::Tensor& output, const at::Tensor& target) const override {
    const auto confusion = confusion_of(of_classes(output, target, name_)).to(torch::kCPU);
    const auto hits = confusion.diagonal(), said = confusion.sum(0), meant = confusion.sum(1);
    Measures measures;
    for (std::int64_t c = 0; c < confusion.size(0); ++c) {
      measures.emplace(fmt::format("{}.hits", c), Measure{hits[c], 1});
      measures.emplace(fmt::format("{}.said", c), Measure{said[c], 1});
      measures.emplace(fmt::format("{}.meant", c), Measure{meant[c], 1});
    }
    return measures;
  }

  Values values(const Sums& sums) const override {
    Counts all;
    double total = 0, classes = 0;
    Values values;
    for (std::int64_t c = 0; sums.contains(fmt::format("{}.hits", c)); ++c) {
      const Counts of{sums.at(fmt::format("{}.hits", c)).sum, sums.at(fmt::format("{}.said", c)).sum,
                      sums.at(fmt::format("{}.meant", c)).sum};
      all = {all.hits + of.hits, all.said + of.said, all.meant + of.meant};
      if (of.said + of.meant == 0) continue;  // the class does not occur
      total += quality(of);
      ++classes;
      if (average_ == "each") values.emplace(fmt::format("{}_{}", name_, c), quality(of));
    }
    if (average_ == "macro" && classes > 0) values.emplace(name_, total / classes);
    if (average_ == "micro" && all.meant > 0) values.emplace(name_, quality(all));
    return values;
  }

 private:
  struct Counts {
    double hits = 0, said = 0, meant = 0;
  };

  double quality(const Counts& of) const {
    const double of_what = name_ == "precision" ? of.said : name_ == "recall" ? of.meant : (of.said + of.meant) / 2;
    return of_what > 0 ? of.hits / of_what : 0;
  }

  std::string name_;
  std::string average_;
};

class Confusion final : public Metric {
 public:
  Measures measure(const at::Tensor& output, const at::Tensor& target) const override {
    constexpr std::int64_t kMostClasses = 100;
    const auto confusion = confusion_of(of_classes(output, target, "confusion")).to(torch::kCPU);
    if (confusion.size(0) > kMostClasses) {
      fail(ErrorKind::config, "metrics", "confusion shows up to {} classes, and there are {}", kMostClasses,
           confusion.size(0));
    }
    Measures measures;
    for (std::int64_t meant = 0; meant < confusion.size(0); ++meant) {
      for (std::int64_t said = 0; said < confusion.size(1); ++said) {
        measures.emplace(fmt::format("confusion_{}_{}", meant, said), Measure{confusion[meant][said], 1});
      }
    }
    return measures;
  }

  Values values(const Sums& sums) const override {
    Values values;
    for (const auto& [name, sum] : sums) values.emplace(name, sum.sum);
    return values;
  }
};

class Differences final : public Metric {
 public:
  explicit Differences(std::string name) : name_(std::move(name)) {}

  Measures measure(const at::Tensor& output, const at::Tensor& target) const override {
    require_equal_shapes(output, target, name_);
    const auto difference = output.to(torch::kDouble) - target.to(torch::kDouble);
    return {{"sum", sum_of(name_ == "mae" ? difference.abs() : difference.square())}};
  }

  Values values(const Sums& sums) const override {
    const auto& [sum, count] = sums.at("sum");
    if (count == 0) return {};
    return {{name_, name_ == "rmse" ? std::sqrt(sum / count) : sum / count}};
  }

 private:
  std::string name_;
};

class Determination final : public Metric {
 public:
  Measures measure(const at::Tensor& output, const at::Tensor& target) const override {
    require_equal_shapes(output, target, "r2");
    const auto wanted = target.to(torch::kDouble);
    return {{"residual", sum_of((output.to(torch::kDouble) - wanted).square())},
            {"target", sum_of(wanted)},
            {"squares", sum_of(wanted.square())}};
  }

  Values values(const Sums& sums) const override {
    const auto& target = sums.at("target");
    if (target.count == 0) return {};
    const double spread = sums.at("squares").sum - target.sum * target.sum / target.count;
    if (spread <= 0) return {};  // equal targets have no variance
    return {{"r2", 1 - sums.at("residual").sum / spread}};
  }
};

using ValueNames = std::function<std::vector<std::string>(const PartOptions&)>;

/// The names of values that no option changes.
ValueNames always(const char* name) {
  return [name](const PartOptions&) { return std::vector<std::string>{name}; };
}

std::string top_name(const PartOptions& options) { return fmt::format("top_{}", options.as<TopKOptions>().k); }

MetricPart quality_part(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .options = PartOptions::of(AverageOptions{}),
          .make =
              [name](const PartOptions& options) {
                return std::make_shared<ClassQuality>(name, options.as<AverageOptions>().average);
              },
          .targets = Targets::classes,
          .values =
              [name](const PartOptions& options) {
                const bool each = options.as<AverageOptions>().average == "each";
                return std::vector<std::string>{each ? fmt::format("{}_*", name) : name};
              }};
}

MetricPart difference_part(const char* name, const char* doc) {
  return {.name = name,
          .doc = doc,
          .options = {},
          .make = [name](const PartOptions&) { return std::make_shared<Differences>(name); },
          .targets = Targets::numbers,
          .values = always(name)};
}

/// The area under the ROC curve, exact over all batches and ranks. Takes outputs [N] or [N, 1] (logits or
/// probabilities; higher values mean class 1), and targets 0 or 1 of the same size, integers or floating. Equal outputs
/// count half. No value when one class has no sample, NaN when an output is NaN. Keeps 8 bytes of each evaluated sample
/// of all ranks on every rank.
MetricPart auc_part() {
  return {.name = "auc",
          .doc = "probability that a sample of class 1 has a larger output than one of class 0; equal ones count half",
          .options = {},
          .make = [](const PartOptions&) { return std::make_shared<RocArea>(); },
          .values = always("auc")};
}

}  // namespace

std::vector<MetricPart> shipped_metrics() {
  return {{.name = "accuracy",
           .doc = "share of the targets that the largest output names",
           .options = {},
           .make = [](const PartOptions&) { return std::make_shared<TopK>(1, "accuracy"); },
           .targets = Targets::classes,
           .values = always("accuracy")},
          {.name = "top_k",
           .doc = "share of the targets that are among the k largest outputs",
           .options = PartOptions::of(TopKOptions{}),
           .make =
               [](const PartOptions& options) {
                 return std::make_shared<TopK>(options.as<TopKOptions>().k, top_name(options));
               },
           .targets = Targets::classes,
           .values = [](const PartOptions& options) { return std::vector<std::string>{top_name(options)}; }},
          quality_part("precision", "share of the samples predicted as a class that are of it"),
          quality_part("recall", "share of the samples of a class that are predicted as it"),
          quality_part("f1", "harmonic mean of precision and recall"),
          {.name = "confusion",
           .doc = "how often class A was taken for class B, as confusion_A_B",
           .options = {},
           .make = [](const PartOptions&) { return std::make_shared<Confusion>(); },
           .targets = Targets::classes,
           .values = always("confusion_*")},
          auc_part(),
          difference_part("mae", "mean absolute difference"),
          difference_part("mse", "mean squared difference"),
          difference_part("rmse", "root of the mean squared difference"),
          {.name = "r2",
           .doc = "share of the targets' variance that is explained",
           .options = {},
           .make = [](const PartOptions&) { return std::make_shared<Determination>(); },
           .targets = Targets::numbers,
           .values = always("r2")}};
}

}  // namespace lockstep::train
