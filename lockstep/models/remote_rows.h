// The rows of a ServedEmbedding that are not in the module.
#pragma once

#include <lockstep/models/network.h>
#include <lockstep/rows/sparse_rows.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::models {

/// The storage of rows that are not in the module.
class RowHome {
 public:
  RowHome() = default;
  RowHome(const RowHome&) = delete;
  RowHome& operator=(const RowHome&) = delete;
  virtual ~RowHome() = default;

  /// The current rows of these ids: [ids, dim], float32 on the CPU, new memory. The ids are ascending and unique.
  /// `table` is RemoteRows::name.
  virtual at::Tensor fetch(const std::string& table, std::span<const std::int64_t> ids) = 0;
};

/// The gradients of a table from backward passes, added up in the same way as for a table in the module. `used`:
/// whether there was a gradient, perhaps without rows.
struct RowGradients {
  bool used = false;
  rows::SparseRows rows;
};

/// The data of a table without rows in the module. It is shared with hooks of graphs that may outlive the module.
struct RemoteRows {
  std::uint64_t seed = 0;  ///< of the first values (rows/row_rule.h)
  std::string name = "table";
  std::shared_ptr<RowHome> home{};  ///< must be set before the first forward pass
  at::Tensor gradients{};           ///< sparse, of the whole table; undefined: there were none
};

/// Returns the gradients since the last call, and clears them.
RowGradients take_gradients(RemoteRows& rows, std::int64_t dim);

/// While it exists on a thread, tables that this thread makes have their rows outside the module.
class TablesElsewhere {
 public:
  TablesElsewhere();
  ~TablesElsewhere();
  TablesElsewhere(const TablesElsewhere&) = delete;
  TablesElsewhere& operator=(const TablesElsewhere&) = delete;

 private:
  bool before_;
};

/// Whether tables that this thread makes now have their rows outside the module.
bool tables_are_elsewhere();

/// A table of a module, with the name that its parameter has, or would have: "deep.weight".
struct NamedTable {
  std::string name;
  std::shared_ptr<ServedEmbeddingImpl> table;
};

/// The tables of a module that have their rows outside it.
std::vector<NamedTable> tables_elsewhere(const torch::nn::Module& module);

}  // namespace lockstep::models
