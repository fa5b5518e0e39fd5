// A step of a shard with one update.
#pragma once

#include <lockstep/parameter_servers/server_rows.h>

namespace lockstep::parameter_servers {

inline void update_rows(Shard& shard, const rows::SparseRows& gradients, const rows::RowUpdate& update) {
  shard.count_step();
  shard.update(gradients.ids, gradients.values.data(), update);
}

}  // namespace lockstep::parameter_servers
