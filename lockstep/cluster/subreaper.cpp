#include <lockstep/cluster/subreaper.h>

#include <sys/prctl.h>

namespace lockstep::cluster {

Subreaper::Subreaper() {
  ::prctl(PR_GET_CHILD_SUBREAPER, &before_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Subreaper::~Subreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, before_); }

}  // namespace lockstep::cluster
