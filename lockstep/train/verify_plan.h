// A plan beside plain data parallel, for a few steps each.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/config.h>

#include <string>
#include <vector>

namespace lockstep::train {

/// `planned` or data parallel, whichever plan::beats_data_parallel() prefers, as measured in turns over
/// parallel.verify_plan steps with the run's own data; nothing of them stays. `asked` is the configuration before it
/// was planned. Data parallel is as_data_parallel(). Says in `remarks` what was measured. A collective, with the same
/// answer everywhere.
RunConfig faster_of_plan_and_data_parallel(const RunConfig& planned, const RunConfig& asked, const Group& group,
                                           std::vector<std::string>& remarks);

}  // namespace lockstep::train
