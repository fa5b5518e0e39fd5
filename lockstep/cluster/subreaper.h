// Makes this process the reaper of orphaned descendants.
#pragma once

namespace lockstep::cluster {

/// While it exists, orphaned descendants of this process become its children instead of init's. Instances may nest.
class Subreaper {
 public:
  Subreaper();
  Subreaper(const Subreaper&) = delete;
  Subreaper& operator=(const Subreaper&) = delete;
  ~Subreaper();

 private:
  int before_ = 0;
};

}  // namespace lockstep::cluster
