#include <lockstep/base/error.h>
#include <lockstep/models/table.h>
#include <lockstep/rows/initial_row.h>

#include <ATen/Parallel.h>

#include <utility>

namespace lockstep::models {
namespace {

constexpr std::int64_t kRowsOfThread = 1 << 12;

thread_local bool are_elsewhere = false;

/// Of the right sizes, and without memory of its own.
at::Tensor placeholder(const TableShape& shape) { return torch::zeros({1, 1}).expand({shape.rows, shape.dim}); }

torch::nn::EmbeddingOptions embedding_options(const TableShape& shape) {
  return torch::nn::EmbeddingOptions(shape.rows, shape.dim)
      .sparse(shape.sparse)
      ._weight(are_elsewhere ? placeholder(shape) : torch::empty({shape.rows, shape.dim}));
}

std::uint64_t drawn_seed() {
  const auto drawn = torch::randint(std::int64_t{1} << 62, {1}, torch::TensorOptions(torch::kLong));
  return drawn.device().is_cpu() ? static_cast<std::uint64_t>(drawn.item<std::int64_t>()) : 0;
}

void fill(const at::Tensor& weight, std::uint64_t seed, double deviation) {
  if (!weight.device().is_cpu()) return;  // shapes only
  const torch::NoGradGuard no_grad;
  if (deviation == 0) {
    weight.detach().zero_();
    return;
  }
  auto* numbers = weight.data_ptr<float>();
  const auto dim = static_cast<std::size_t>(weight.size(1));
  at::parallel_for(0, weight.size(0), kRowsOfThread, [&](std::int64_t begin, std::int64_t end) {
    for (auto row = begin; row < end; ++row) {
      rows::initial_row(seed, row, deviation, {numbers + static_cast<std::size_t>(row) * dim, dim});
    }
  });
}

}  // namespace

/// The sum of the gradients of forward passes. Shared with hooks of graphs that may outlive the module.
struct RowTableImpl::Collected {
  at::Tensor sum;  ///< sparse, of the whole table; undefined: there was none

  // As libtorch adds the gradients of a table that is in the module, whose order of additions is its own.
  void add(const at::Tensor& of_rows, const at::Tensor& sparse, const TableShape& shape) {
    const torch::NoGradGuard no_grad;
    const auto ids = of_rows.index_select(0, sparse._indices()[0]).unsqueeze(0);
    const auto of_table = at::_sparse_coo_tensor_unsafe(ids, sparse._values(), {shape.rows, shape.dim});
    sum = sum.defined() ? sum.add_(of_table) : of_table;
  }
};

RowTableImpl::RowTableImpl(const TableShape& shape)
    : EmbeddingImpl(embedding_options(shape)), shape_(shape), seed_(drawn_seed()), elsewhere_(are_elsewhere) {
  if (!elsewhere_) {
    fill(weight, seed_, shape_.deviation);
    return;
  }
  parameters_.erase("weight");
  weight = at::Tensor();
  collected_ = std::make_shared<Collected>();
}

void RowTableImpl::settle(std::string name, std::shared_ptr<RowHome> home) {
  name_ = std::move(name);
  home_ = std::move(home);
}

void RowTableImpl::require_in_range(const at::Tensor& ids) const {
  const auto flat = ids.reshape({-1}).contiguous();
  const auto* id = flat.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    if (id[i] >= 0 && id[i] < shape_.rows) continue;
    fail(ErrorKind::config, "model.rows", "{} has rows 0 to {}, and id {} of sample {} of the batch is {}", name_,
         shape_.rows - 1, i % (ids.numel() / ids.size(0)), i / (ids.numel() / ids.size(0)), id[i]);
  }
}

at::Tensor RowTableImpl::forward(const at::Tensor& ids) {
  return elsewhere_ ? fetch_rows(ids) : EmbeddingImpl::forward(ids);
}

at::Tensor RowTableImpl::fetch_rows(const at::Tensor& ids) {
  if (!home_) fail(ErrorKind::invalid_argument, "table", "{} has no rows yet: settle() gives them a home", name_);
  require_in_range(ids);
  const auto [unique, inverse] = at::_unique(ids, /*sorted=*/true, /*return_inverse=*/true);
  const auto of_rows = unique.contiguous();
  auto found = home_->fetch(name_, {of_rows.data_ptr<std::int64_t>(), static_cast<std::size_t>(of_rows.numel())});
  if (torch::GradMode::is_enabled()) {
    found.requires_grad_();
    found.register_hook([of_rows, collected = collected_, shape = shape_](const at::Tensor& sparse) {
      collected->add(of_rows, sparse, shape);
    });
  }
  return torch::embedding(found, inverse, /*padding_idx=*/-1, /*scale_grad_by_freq=*/false, /*sparse=*/true);
}

RowTableImpl::Gradient RowTableImpl::take_gradient() {
  const auto sum = std::exchange(collected_->sum, {});
  if (!sum.defined()) return {};
  const auto ids = sum._indices()[0].contiguous();
  const auto values = sum._values().contiguous();
  const auto count = static_cast<std::size_t>(ids.numel());
  return {.used = true,
          .rows = rows::sum_by_id({ids.data_ptr<std::int64_t>(), count}, values.data_ptr<float>(),
                                  static_cast<std::size_t>(shape_.dim))};
}

TablesElsewhere::TablesElsewhere() : before_(std::exchange(are_elsewhere, true)) {}
TablesElsewhere::~TablesElsewhere() { are_elsewhere = before_; }

bool tables_are_elsewhere() { return are_elsewhere; }

std::vector<NamedTable> tables_elsewhere(const torch::nn::Module& module) {
  std::vector<NamedTable> tables;
  for (const auto& each : module.named_modules("", /*include_self=*/false)) {
    auto table = std::dynamic_pointer_cast<RowTableImpl>(each.value());
    if (table && table->is_elsewhere()) tables.push_back({each.key() + ".weight", std::move(table)});
  }
  return tables;
}

}  // namespace lockstep::models
