// An embedding that is local, or fetches the distinct rows of a batch from a server and collects their gradients in a
// hook. A thread-local flag during construction decides which.
#include <lockstep/base/error.h>
#include <lockstep/models/remote_rows.h>
#include <lockstep/rows/row_rule.h>

#include <ATen/Parallel.h>

#include <utility>

namespace lockstep::models {
namespace {

constexpr std::int64_t kRowsOfThread = 1 << 12;

thread_local bool are_elsewhere = false;

/// A tensor of the right sizes, without its own memory.
at::Tensor placeholder(const EmbeddingShape& shape) { return torch::zeros({1, 1}).expand({shape.rows, shape.dim}); }

torch::nn::EmbeddingOptions embedding_options(const EmbeddingShape& shape) {
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

// Adds gradients in the order in which libtorch adds those of a table in the module, so that the results are equal.
// `sparse` has the rows of one forward pass.
void add_gradients(RemoteRows& distant, const at::Tensor& of_rows, const at::Tensor& sparse,
                   const EmbeddingShape& shape) {
  const torch::NoGradGuard no_grad;
  const auto ids = of_rows.index_select(0, sparse._indices()[0]).unsqueeze(0);
  const auto of_table = at::_sparse_coo_tensor_unsafe(ids, sparse._values(), {shape.rows, shape.dim});
  distant.gradients = distant.gradients.defined() ? distant.gradients.add_(of_table) : of_table;
}

}  // namespace

ServedEmbeddingImpl::ServedEmbeddingImpl(const EmbeddingShape& shape)
    : EmbeddingImpl(embedding_options(shape)), shape_(shape) {
  const auto seed = drawn_seed();
  if (!are_elsewhere) {
    fill(weight, seed, shape_.deviation);
    return;
  }
  parameters_.erase("weight");
  weight = at::Tensor();
  distant_ = std::make_shared<RemoteRows>(RemoteRows{.seed = seed});
}

void ServedEmbeddingImpl::require_in_range(const at::Tensor& ids) const {
  const auto flat = ids.reshape({-1}).contiguous();
  const auto* id = flat.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    if (id[i] >= 0 && id[i] < shape_.rows) continue;
    fail(ErrorKind::config, "model.rows", "{} has rows 0 to {}, and id {} of sample {} of the batch is {}",
         distant_->name, shape_.rows - 1, i % (ids.numel() / ids.size(0)), i / (ids.numel() / ids.size(0)), id[i]);
  }
}

at::Tensor ServedEmbeddingImpl::forward(const at::Tensor& ids) {
  return distant_ ? fetch_rows(ids) : EmbeddingImpl::forward(ids);
}

at::Tensor ServedEmbeddingImpl::fetch_rows(const at::Tensor& ids) {
  if (!distant_->home) fail(ErrorKind::invalid_argument, "table", "{} has no rows yet", distant_->name);
  require_in_range(ids);
  const auto [unique, inverse] = at::_unique(ids, /*sorted=*/true, /*return_inverse=*/true);
  const auto of_rows = unique.contiguous();
  auto found = distant_->home->fetch(distant_->name,
                                     {of_rows.data_ptr<std::int64_t>(), static_cast<std::size_t>(of_rows.numel())});
  if (torch::GradMode::is_enabled()) {
    found.requires_grad_();
    found.register_hook([of_rows, distant = distant_, shape = shape_](const at::Tensor& sparse) {
      add_gradients(*distant, of_rows, sparse, shape);
    });
  }
  return torch::embedding(found, inverse, /*padding_idx=*/-1, /*scale_grad_by_freq=*/false, /*sparse=*/true);
}

RowGradients take_gradients(RemoteRows& distant, std::int64_t dim) {
  const auto sum = std::exchange(distant.gradients, {});
  if (!sum.defined()) return {};
  const auto ids = sum._indices()[0].contiguous();
  const auto values = sum._values().contiguous();
  const auto count = static_cast<std::size_t>(ids.numel());
  return {.used = true,
          .rows = rows::sum_by_id({ids.data_ptr<std::int64_t>(), count}, values.data_ptr<float>(),
                                  static_cast<std::size_t>(dim))};
}

TablesElsewhere::TablesElsewhere() : before_(std::exchange(are_elsewhere, true)) {}
TablesElsewhere::~TablesElsewhere() { are_elsewhere = before_; }

bool tables_are_elsewhere() { return are_elsewhere; }

std::vector<NamedTable> tables_elsewhere(const torch::nn::Module& module) {
  std::vector<NamedTable> tables;
  for (const auto& each : module.named_modules("", /*include_self=*/false)) {
    auto table = std::dynamic_pointer_cast<ServedEmbeddingImpl>(each.value());
    if (table && table->distant()) tables.push_back({each.key() + ".weight", std::move(table)});
  }
  return tables;
}

}  // namespace lockstep::models
