// Whose children orphans become.
#pragma once

namespace lockstep::cluster {

/// While alive, orphans among the descendants of this process become its children instead of init's. These may nest.
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
