// The exchange of sparse gradients between ranks: rows and their ids, not whole tables.
#pragma once

#include <lockstep/comm/group.h>

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace lockstep::mirrored {

/// A parameter whose gradient is exchanged as rows, on this rank.
struct RowSlot {
  std::string name;
  at::Tensor parameter;
  std::string form;      ///< dtype and sizes of the parameter when the reducer was made
  bool used = false;     ///< got a gradient since the last round
  bool reduced = false;  ///< `.grad()` is a result of all ranks, and nothing was added to it since
};

/// To be called before a gradient is added, if gradients are summed over ranks: see share_old_sum.
void share_old_rows(RowSlot& slot, int ranks);

/// Error(unsupported) naming the parameter when its gradient is dense.
void require_rows(const RowSlot& slot);

/// Makes `.grad()` the mean (or sum) over ranks, with the rows that any of them has: the numbers of a reduction of
/// whole tables (rows::sum_over_ranks). Parameters that no rank used keep their `.grad()`. Three all_gathers for all
/// slots together: numbers of rows, ids (8 bytes), values; each rank sends as many rows as the rank with the most. A
/// collective; with `gave_up` this rank sends no rows.
void exchange_rows(std::vector<RowSlot>& slots, bool gave_up, bool mean, const Group& group);

}  // namespace lockstep::mirrored
