// The collection of rows from all ranks.
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/texts.h>
#include <lockstep/train/modes/evaluate.h>

#include <torch/torch.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace lockstep::train {
namespace {

/// The rows of one name on one rank.
struct RowsSize {
  std::int64_t rows = 0;
  std::int64_t numbers = 0;
  bool is_double = false;
};

std::string sizes_as_text(const Rows& rows) {
  auto json = nlohmann::json::object();
  for (const auto& [name, tensor] : rows) {
    if (tensor.dim() != 2 || (tensor.scalar_type() != torch::kFloat && tensor.scalar_type() != torch::kDouble)) {
      fail(ErrorKind::invalid_argument, "metrics", "rows of a metric are [samples, numbers], float32 or float64");
    }
    json[name] = {tensor.size(0), tensor.size(1), tensor.scalar_type() == torch::kDouble};
  }
  return json.dump();
}

/// By name, the sizes on each rank; ranks without the name have none of its rows.
std::map<std::string, std::vector<RowsSize>> sizes_of_all(const std::vector<std::string>& texts) {
  std::map<std::string, std::vector<RowsSize>> all;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const auto json = nlohmann::json::parse(texts[rank]);
    for (const auto& [name, size] : json.items()) {
      auto& sizes = all[name];
      sizes.resize(texts.size());
      sizes[rank] = {size.at(0), size.at(1), size.at(2)};
    }
  }
  return all;
}

/// The row size and dtype of the ranks with rows.
RowsSize common_size(const std::string& name, const std::vector<RowsSize>& sizes) {
  RowsSize common;
  for (const auto& size : sizes) {
    if (size.numbers == 0) continue;
    if (common.numbers != 0 && (size.numbers != common.numbers || size.is_double != common.is_double)) {
      fail(ErrorKind::mismatch, "metrics", "ranks have rows of {} and of {} numbers, or of two dtypes, for metric {}",
           common.numbers, size.numbers, name);
    }
    common = {std::max(common.rows, size.rows), size.numbers, size.is_double};
  }
  return common;
}

}  // namespace

Rows gather_rows(const Rows& own, const Group& group) {
  if (group.size() == 1) return own;
  Rows all;
  for (const auto& [name, sizes] : sizes_of_all(gather_texts(sizes_as_text(own), group))) {
    const auto common = common_size(name, sizes);
    // Ranks may have different numbers of samples: all ranks send as many rows as the rank with the most samples.
    auto sent = torch::zeros({common.rows, common.numbers}, common.is_double ? torch::kDouble : torch::kFloat);
    if (const auto found = own.find(name); found != own.end()) {
      sent.narrow(0, 0, found->second.size(0)).copy_(found->second);
    }
    const auto gathered = all_gather(sent, group);
    std::vector<at::Tensor> parts;
    for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
      parts.push_back(gathered.narrow(0, static_cast<std::int64_t>(rank) * common.rows, sizes[rank].rows));
    }
    all.emplace(name, torch::cat(parts));
  }
  return all;
}

}  // namespace lockstep::train
