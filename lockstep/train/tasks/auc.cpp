// The auc metric as rows of output and class, gathered from all ranks and sorted once for the exact area.
#include <lockstep/base/error.h>
#include <lockstep/data/roc_area.h>
#include <lockstep/train/tasks/auc.h>

#include <torch/torch.h>

#include <fmt/ranges.h>

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

}  // namespace

MetricPart auc_part() {
  return {.name = "auc",
          .doc = "probability that a sample of class 1 has a larger output than one of class 0; equal ones count half",
          .options = {},
          .make = [](const PartOptions&) { return std::make_shared<RocArea>(); },
          .values = [](const PartOptions&) { return std::vector<std::string>{"auc"}; }};
}

}  // namespace lockstep::train
