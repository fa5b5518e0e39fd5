// The collection of the errors of unusable items (items.h), for a check of data.
#pragma once

#include <lockstep/base/error.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::data {

/// While it exists, it collects the errors with which readers on this thread would end a run: they leave such items
/// out, whatever the value of `on_error`. For a check that reports all of them.
class BadItemsTaken {
 public:
  BadItemsTaken();
  ~BadItemsTaken();
  BadItemsTaken(const BadItemsTaken&) = delete;
  BadItemsTaken& operator=(const BadItemsTaken&) = delete;

  std::int64_t count() const { return count_; }
  /// The object of this thread; nullptr: none.
  static BadItemsTaken* current();
  void take(const Error& error);
  /// The errors of the first items.
  const std::vector<std::string>& first() const { return first_; }

 private:
  BadItemsTaken* outer_;
  std::int64_t count_ = 0;
  std::vector<std::string> first_;
};

}  // namespace lockstep::data
