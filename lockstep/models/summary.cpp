// The table of a module's parameters and buffers as text; shared tensors are counted once.
#include <lockstep/models/registry.h>

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <iterator>
#include <unordered_set>

namespace lockstep::models {
namespace {

struct Row {
  std::string name;
  std::string shape;
  std::int64_t values = 0;
  std::string_view note;
};

struct Totals {
  std::int64_t trainable = 0;
  std::int64_t frozen = 0;
  std::int64_t buffers = 0;
  std::int64_t bytes = 0;
};

/// 11689512 -> "11,689,512".
std::string grouped(std::int64_t number) {
  auto digits = std::to_string(number);
  for (auto place = static_cast<std::int64_t>(digits.size()) - 3; place > 0; place -= 3) {
    digits.insert(static_cast<std::size_t>(place), 1, ',');
  }
  return digits;
}

Row row_of(const std::string& name, const torch::Tensor& tensor, std::string_view note) {
  return {name, fmt::format("[{}]", fmt::join(tensor.sizes(), ", ")), tensor.numel(), note};
}

/// A tensor that two modules share is listed under both names and counted once.
class Table {
 public:
  void add_parameter(const std::string& name, const torch::Tensor& tensor) {
    const bool first = note_size(tensor);
    const bool trainable = tensor.requires_grad();
    rows_.push_back(row_of(name, tensor, !first ? "shared" : trainable ? "" : "frozen"));
    if (first) (trainable ? totals_.trainable : totals_.frozen) += tensor.numel();
  }

  void add_buffer(const std::string& name, const torch::Tensor& tensor) {
    const bool first = note_size(tensor);
    rows_.push_back(row_of(name, tensor, first ? "buffer" : "shared"));
    if (first) totals_.buffers += tensor.numel();
  }

  std::string text() const {
    std::size_t name_width = 4;
    std::size_t shape_width = 5;
    for (const auto& row : rows_) {
      name_width = std::max(name_width, row.name.size());
      shape_width = std::max(shape_width, row.shape.size());
    }
    std::string out;
    auto line = std::back_inserter(out);
    fmt::format_to(line, "{:<{}}  {:<{}}  {:>12}\n", "name", name_width, "shape", shape_width, "values");
    for (const auto& row : rows_) {
      fmt::format_to(line, "{:<{}}  {:<{}}  {:>12}{}{}\n", row.name, name_width, row.shape, shape_width,
                     grouped(row.values), row.note.empty() ? "" : "  ", row.note);
    }
    fmt::format_to(line, "parameters: {} ({} trainable, {} frozen); buffers: {}; together {:.1f} MiB\n",
                   grouped(totals_.trainable + totals_.frozen), grouped(totals_.trainable), grouped(totals_.frozen),
                   grouped(totals_.buffers), static_cast<double>(totals_.bytes) / (1 << 20));
    return out;
  }

 private:
  /// False when the same tensor was counted before.
  bool note_size(const torch::Tensor& tensor) {
    if (!seen_.insert(tensor.unsafeGetTensorImpl()).second) return false;
    totals_.bytes += tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
    return true;
  }

  std::vector<Row> rows_;
  Totals totals_;
  std::unordered_set<const void*> seen_;
};

}  // namespace

std::string summarize(const torch::nn::Module& module) {
  Table table;
  for (const auto& parameter : module.named_parameters()) table.add_parameter(parameter.key(), parameter.value());
  for (const auto& buffer : module.named_buffers()) table.add_buffer(buffer.key(), buffer.value());
  return table.text();
}

}  // namespace lockstep::models
