#include <lockstep/comm/group_impl.h>
#include <lockstep/comm/progress.h>

namespace lockstep {

void completed_step(const Group& group, std::int64_t step) noexcept { group.impl().job()->complete_step(step); }

void completed_backward(const Group& group) noexcept { group.impl().job()->status_page().complete_backward(); }

}  // namespace lockstep
