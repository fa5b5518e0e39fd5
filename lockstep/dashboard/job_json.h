// The messages between the server of a job's page and the page, as JSON.
#pragma once

#include <lockstep/dashboard/job_view.h>

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::dashboard {

/// The whole view, for a page that has just connected.
std::string whole_json(const JobView& view);

/// The same with the last lines of all ranks, for the file of a job that has ended.
std::string ended_json(const JobView& view);

/// What has changed.
std::string changes_json(const JobView& view, const Changes& changes);

/// The last lines of a rank; none for a rank that does not exist.
std::string lines_json(const JobView& view, int rank);

/// The answer to the request to kill a rank.
std::string answer_json(int rank, bool ok, const std::string& text);

/// A request of a page.
struct PageRequest {
  enum class Kind { lines, kill } kind = Kind::lines;
  std::optional<int> rank{};  ///< nullopt: no lines any more
};

/// A page's message is no longer than this, in bytes.
inline constexpr std::size_t kLongestRequest = 256;

/// Error(data) for a text that is not exactly a request.
PageRequest parse_request(const std::string& text);

}  // namespace lockstep::dashboard
