// The rows of a ServedEmbedding that are not in the module.
#pragma once

#include <lockstep/models/served_embedding.h>
#include <lockstep/rows/sparse_rows.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::models {

/// The place of rows that are not in the module.
class RowHome {
 public:
  RowHome() = default;
  RowHome(const RowHome&) = delete;
  RowHome& operator=(const RowHome&) = delete;
  virtual ~RowHome() = default;

  /// The present rows of these ids, which ascend, each once: [ids, dim], float32 on the CPU, new memory. `table` is
  /// RemoteRows::name.
  virtual at::Tensor fetch(const std::string& table, std::span<const std::int64_t> ids) = 0;
};

/// The gradients that backward passes have given a table, added up as those of one in the module. `used`: whether there
/// was one, perhaps without rows.
struct RowGradients {
  bool used = false;
  rows::SparseRows rows;
};

/// What a table without rows has instead. Shared with hooks of graphs that may outlive the module.
struct RemoteRows {
  std::uint64_t seed = 0;  ///< of the first values (rows/initial_row.h)
  std::string name = "table";
  std::shared_ptr<RowHome> home{};  ///< to be set before the first forward pass
  at::Tensor gradients{};           ///< sparse, of the whole table; undefined: there were none
};

/// Takes the gradients since the last call.
RowGradients take_gradients(RemoteRows& rows, std::int64_t dim);

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
  std::shared_ptr<ServedEmbeddingImpl> table;
};

/// The tables of a module that are elsewhere.
std::vector<NamedTable> tables_elsewhere(const torch::nn::Module& module);

}  // namespace lockstep::models
