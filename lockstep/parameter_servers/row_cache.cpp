// A cache of rows by table and id, limited in size and emptied when the step changes.
#include <lockstep/parameter_servers/row_cache.h>

namespace lockstep::parameter_servers {

RowCache::RowCache(std::size_t rows, std::vector<std::size_t> dims) : most_(rows) {
  for (const auto dim : dims) tables_.push_back({.dim = dim, .slots = {}, .rows = {}});
}

void RowCache::begin(std::int64_t step) {
  if (step == step_) return;
  step_ = step;
  size_ = 0;
  for (auto& table : tables_) {
    table.slots.clear();
    table.rows.clear();
  }
}

const float* RowCache::find(std::size_t table, std::int64_t id) const {
  const auto& of_table = tables_[table];
  const auto found = of_table.slots.find(id);
  return found == of_table.slots.end() ? nullptr : of_table.rows.data() + found->second * of_table.dim;
}

void RowCache::put(std::size_t table, std::int64_t id, const float* row) {
  if (size_ == most_) return;
  auto& of_table = tables_[table];
  if (!of_table.slots.emplace(id, of_table.slots.size()).second) return;
  of_table.rows.insert(of_table.rows.end(), row, row + of_table.dim);
  ++size_;
}

}  // namespace lockstep::parameter_servers
