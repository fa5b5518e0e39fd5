// What happens to an item of a file that cannot be used: the run ends, or the item is left out and counted.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/base/error.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// The key `on_error` of a data set: "fail" or "skip".
void describe_on_error(ConfigFields& fields, std::string& on_error);

/// Takes, while it lives, what readers on this thread would end a run with: they leave such items out, whatever
/// `on_error` says. For a check that is to name them all.
class BadItemsTaken {
 public:
  BadItemsTaken();
  ~BadItemsTaken();
  BadItemsTaken(const BadItemsTaken&) = delete;
  BadItemsTaken& operator=(const BadItemsTaken&) = delete;

  std::int64_t count() const { return count_; }
  /// That of this thread; nullptr: none.
  static BadItemsTaken* current();
  void take(const Error& error);
  /// What is wrong with the first of them.
  const std::vector<std::string>& first() const { return first_; }

 private:
  BadItemsTaken* outer_;
  std::int64_t count_ = 0;
  std::vector<std::string> first_;
};

/// What ends the run because of an item: an Error(data) then ends with `way_out`, which leaves it out instead. Others,
/// and those of a check, stay as they are.
Error naming_way_out(const Error& error, std::string_view way_out = "data.on_error=skip");

/// `read()`, whose errors name `way_out` unless it `skips` already.
template <typename Read>
auto read_or_name_way_out(bool skips, const Read& read, std::string_view way_out = "data.on_error=skip") {
  try {
    return read();
  } catch (const Error& error) {
    if (skips) throw;
    throw naming_way_out(error, way_out);
  }
}

/// Counts the items that a reader left out. Not thread-safe.
class BadItems {
 public:
  /// `what` is for the report, e.g. "lines of train.csv".
  BadItems(bool skips, std::string what) : skips_(skips), what_(std::move(what)) {}

  /// Runs `read`; an Error(data) of it is thrown on, naming the way out, or logged (the first ten) and counted. Whether
  /// it went well.
  bool try_to(const std::function<void()>& read);

  /// One line in the log when something was left out, of `all`.
  void report(std::int64_t all) const;

  std::int64_t count() const { return count_; }
  bool skips() const { return skips_; }

 private:
  bool skips_;
  std::string what_;
  std::int64_t count_ = 0;
};

}  // namespace lockstep::data
