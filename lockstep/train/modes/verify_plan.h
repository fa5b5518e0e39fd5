// The measurement of a plan against plain data parallel, over a few steps of each.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/program.h>

#include <string>
#include <vector>

namespace lockstep::train {

/// `planned` or data parallel, whichever plan::beats_data_parallel() prefers, measured in turns over
/// parallel.verify_plan steps with the run's own data; their results are discarded. `asked` is the user's configuration
/// before planning. Data parallel is as_data_parallel(). Adds the measurements to `remarks`. A collective, with the
/// same result on all ranks.
RunConfig faster_of_plan_and_data_parallel(const RunConfig& planned, const RunConfig& asked, const Program& program,
                                           const Group& group, std::vector<std::string>& remarks);

}  // namespace lockstep::train
