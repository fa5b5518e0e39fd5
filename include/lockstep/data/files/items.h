// Items that data sets read from files: the lines of a file, the pictures of a folder, and what becomes of items that
// cannot be used.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::data {

/// The lines of a file, without their ends (LF or CR LF) and without a byte order mark at the start; empty ones are
/// left out. Calls `line` with each line and its number, from 1. Error(config) naming `key` when there is no such file
/// or it is a folder; Error(io) when it cannot be read. Thread-safe.
void for_each_line(const std::filesystem::path& file, std::string_view key,
                   const std::function<void(std::string_view line, int number)>& line);

/// The key `on_error` of a data set: "fail" or "skip".
void describe_on_error(ConfigFields& fields, std::string& on_error);

/// The error that ends the run because of an item: the message of an Error(data) ends with `way_out`, the setting that
/// leaves the item out instead. Other errors, and those of `lockstep data check`, are not changed. Thread-safe.
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

/// Writes one line about the read data to the log. A run shows warnings on its console as well. Thread-safe.
void report_line(LogLevel level, std::string_view line);

/// Counts the cases in which a reader did not do what a user may expect; each kind is one line of the log. Not
/// thread-safe.
class CountedRemarks {
 public:
  /// `kind` follows a number, e.g. "hidden files are passed over".
  void add(LogLevel level, std::string_view kind, std::string_view example);

  /// "WHAT: 3 hidden files are passed over; the first is ._a.jpg", in the order of the first occurrence of each kind.
  void report(std::string_view what) const;

  std::int64_t count_of(std::string_view kind) const;

 private:
  struct Kind {
    LogLevel level;
    std::string text;
    std::string first;
    std::int64_t count = 0;
  };
  std::vector<Kind> kinds_;
};

/// Whether a name is one of files and folders that programs leave beside the user's own: names that begin with a dot
/// (.ipynb_checkpoints, macOS's ._a.jpg), and macOS's __MACOSX.
bool is_left_by_programs(const std::filesystem::path& path);

enum class FolderDepth { itself, all_below };

/// The pictures of a folder, sorted by the bytes of their paths. Entries with is_left_by_programs() are skipped with
/// all their content, and so are files without the extension of a picture; `remarks` counts them and names the first
/// ones. Error(io) naming `key` where the folder cannot be listed.
std::vector<std::string> pictures_in(const std::filesystem::path& folder, FolderDepth depth, std::string_view key,
                                     CountedRemarks& remarks);

/// The names of the folders in a folder, sorted by bytes, without those of is_left_by_programs(), which `remarks`
/// counts. Error(io) naming `key` where the folder cannot be listed.
std::vector<std::string> folders_in(const std::filesystem::path& folder, std::string_view key, CountedRemarks& remarks);

}  // namespace lockstep::data
