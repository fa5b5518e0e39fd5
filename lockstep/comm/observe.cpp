// The registration of the one observer that a job may have, as long as the object lives.
#include <lockstep/comm/observe.h>

#include <lockstep/base/error.h>
#include <lockstep/comm/group_impl.h>

#include <utility>

namespace lockstep {

CollectiveObserver::CollectiveObserver(const Group& group, CollectiveListener listener) : group_(group) {
  if (group_.impl().job()->observe(std::make_shared<const CollectiveListener>(std::move(listener)))) return;
  fail(ErrorKind::invalid_argument, "observe",
       "the collectives of this job have an observer already, and can have one at a time");
}

CollectiveObserver::~CollectiveObserver() { group_.impl().job()->stop_observing(); }

bool is_observed(const Group& group) { return group.impl().job()->is_observed(); }

}  // namespace lockstep
