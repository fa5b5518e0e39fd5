// An embedding table whose rows may be somewhere else than in the module.
#pragma once

#include <lockstep/rows/sparse_rows.h>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::models {

struct TableShape {
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  bool sparse = false;   ///< gradients have only the rows of the batch
  double deviation = 0;  ///< of the first values, around 0 (rows/initial_row.h)
};

/// The place of rows that are not in the module.
class RowHome {
 public:
  RowHome() = default;
  RowHome(const RowHome&) = delete;
  RowHome& operator=(const RowHome&) = delete;
  virtual ~RowHome() = default;

  /// The present rows of these ids, which ascend, each once: [ids, dim], float32 on the CPU, new memory. `table` is the
  /// name that the table got in settle().
  virtual at::Tensor fetch(const std::string& table, std::span<const std::int64_t> ids) = 0;
};

/// A module with the parameter `weight` [rows, dim], as torch::nn::Embedding; its first values follow from one number
/// drawn from torch's default generator. Made while a TablesElsewhere exists, it has no parameter, and no memory for
/// one: its rows come from a RowHome, and gradients of the rows of a step are taken out of it. Not thread-safe.
class RowTableImpl : public torch::nn::EmbeddingImpl {
 public:
  explicit RowTableImpl(const TableShape& shape);

  void reset() override {}
  /// int64 of any sizes, to [..., dim]. Error(config) naming an id that is out of range.
  at::Tensor forward(const at::Tensor& ids);

  const TableShape& shape() const { return shape_; }
  std::uint64_t seed() const { return seed_; }
  bool is_elsewhere() const { return elsewhere_; }

  /// For a table that is elsewhere: where its rows are, under which name. Before the first forward pass.
  void settle(std::string name, std::shared_ptr<RowHome> home);

  /// The gradients that backward passes have given since the last call, added up as those of a table in the module.
  /// `used`: whether there was one, perhaps without rows.
  struct Gradient {
    bool used = false;
    rows::SparseRows rows;
  };
  Gradient take_gradient();

 private:
  at::Tensor fetch_rows(const at::Tensor& ids);
  void require_in_range(const at::Tensor& ids) const;

  struct Collected;

  TableShape shape_;
  std::uint64_t seed_;
  bool elsewhere_;
  std::string name_ = "table";
  std::shared_ptr<RowHome> home_;
  std::shared_ptr<Collected> collected_;
};
TORCH_MODULE(RowTable);

/// While it exists on a thread, tables that this thread makes are elsewhere.
class TablesElsewhere {
 public:
  TablesElsewhere();
  ~TablesElsewhere();
  TablesElsewhere(const TablesElsewhere&) = delete;
  TablesElsewhere& operator=(const TablesElsewhere&) = delete;

 private:
  bool before_;
};

/// Whether tables that this thread makes now are elsewhere.
bool tables_are_elsewhere();

/// A table of a module, with the name that its parameter has, or would have: "deep.weight".
struct NamedTable {
  std::string name;
  std::shared_ptr<RowTableImpl> table;
};

/// The tables of a module that are elsewhere.
std::vector<NamedTable> tables_elsewhere(const torch::nn::Module& module);

}  // namespace lockstep::models
