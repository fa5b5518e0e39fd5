// The handling of unusable items of a file: the run ends, or the item is left out and counted.
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

/// The error that ends the run because of an item: the message of an Error(data) ends with `way_out`, the setting that
/// leaves the item out instead. Other errors, and those of a check, are not changed.
Error naming_way_out(const Error& error, std::string_view way_out = "data.on_error=skip");

/// Returns `read()`. Its errors name `way_out`, unless `skips` is set already.
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

  /// Runs `read`. Its Error(data) is rethrown with the way out, or logged (the first ten) and counted. Returns whether
  /// there was no error.
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
