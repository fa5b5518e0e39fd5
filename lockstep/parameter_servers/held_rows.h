// The rows that one parameter server has, after one step: those of its part of all tables and, with replicas, a copy of
// those of the server before it.
#pragma once

#include <lockstep/parameter_servers/shard.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::parameter_servers {

struct HeldRows {
  std::vector<std::vector<Shard>> parts;  ///< of its own part and of the copy, by table
  std::int64_t step = 0;                  ///< completed steps
  bool remembers = false;                 ///< the last step can be undone
};

/// The part that a server owns (0) or has as a copy (1).
int part_of(int server, bool copy, int servers);

/// Restores the rows of the previous step. Only with `remembers`.
void take_back_step(HeldRows& rows);

/// A server's report of its rows in memory, from which all servers plan the recovery after a loss.
struct ServerMemory {
  bool has_rows = false;  ///< false: a new process
  std::int64_t step = 0;
  bool remembers = false;
  bool operator==(const ServerMemory&) const = default;
};

/// Conversion to a text without spaces, and back. Error(data) for any other text.
std::string print_memory(const ServerMemory& memory);
ServerMemory parse_memory(const std::string& text);

/// The plan by which all servers get the rows after a step.
struct RowsPlan {
  std::string obstacle;            ///< why recovery is impossible, for people; empty: it is possible
  std::vector<bool> takes_back{};  ///< by server: it is one step ahead
  std::vector<bool> takes_rows{};  ///< by server: it is new, and gets its rows from its two neighbours
};

/// A pure function of the reports of all servers. With 2 replicas, the rows of a lost server are on the next server,
/// and the rows of which it had a copy are on the previous server.
RowsPlan plan_rows(const std::vector<ServerMemory>& servers, std::int64_t step, int replicas);

}  // namespace lockstep::parameter_servers
