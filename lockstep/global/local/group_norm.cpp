// Local forms of group norm, whose arguments are the part's numbers of samples, channels and groups.
#include <lockstep/global/local/across_ranks.h>

namespace lockstep::global {

void form_of_group_norm(LocalCall& call) {
  const auto channels = call.plan.call.integer("C");
  const auto mine = part_of_input(call, "input", 1).size;
  call.argument("N") = part_of_input(call, "input", 0).size;
  call.argument("C") = mine;
  if (channels > 0) call.argument("group") = call.plan.call.integer("group") * mine / channels;
  run_operator(call);
}

}  // namespace lockstep::global
