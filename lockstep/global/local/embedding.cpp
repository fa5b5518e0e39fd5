// The local form of embedding lookups in a part of the table.
#include <lockstep/global/local/across_ranks.h>

#include <ATen/ATen.h>

namespace lockstep::global {

/// Rows that other ranks hold give zeros here, so that the sum over the ranks is the result.
void form_of_embedding(LocalCall& call) {
  if (axes_that_divide(call, placements_of_input(call, "weight"), 0).empty()) return run_operator(call);
  const auto weight = call.argument("weight").toTensor();
  const auto indices = call.argument("indices").toTensor();
  const auto rows = call.plan.call.info("weight").sizes[0];
  TORCH_CHECK_INDEX(indices.ge(0).logical_and_(indices.lt(rows)).all().item<bool>(),
                    "embedding: an index is not below the ", rows, " rows of the table");
  if (weight.numel() == 0) return call.give(at::zeros(call.local_output_sizes(), weight.options()));
  const auto mine = part_of_input(call, "weight", 0);
  const auto elsewhere = indices.lt(mine.begin).logical_or_(indices.ge(mine.begin + mine.size));
  const auto looked_up = at::embedding(weight, (indices - mine.begin).masked_fill_(elsewhere, 0));
  call.give(looked_up.masked_fill_(elsewhere.unsqueeze(-1), 0));
}

}  // namespace lockstep::global
