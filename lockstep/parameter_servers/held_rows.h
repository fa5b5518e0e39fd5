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
  bool remembers = false;                 ///< what the last step changed can be taken back
};

/// The part that a server has as its own (0) or as a copy (1).
int part_of(int server, bool copy, int servers);

/// Makes the rows those of the step before. Only with `remembers`.
void take_back_step(HeldRows& rows);

/// What a server has in memory, as the others need to know it to go on after a loss.
struct ServerMemory {
  bool has_rows = false;  ///< false: a new process
  std::int64_t step = 0;
  bool remembers = false;
  bool operator==(const ServerMemory&) const = default;
};

/// Text of one word each and from it. Error(data) for any other text.
std::string print_memory(const ServerMemory& memory);
ServerMemory parse_memory(const std::string& text);

/// How servers come to have the rows after a step.
struct RowsPlan {
  std::string obstacle;            ///< why they cannot, for people; empty where they can
  std::vector<bool> takes_back{};  ///< by server: it is one step ahead
  std::vector<bool> takes_rows{};  ///< by server: it is new, and gets its rows from the two beside it
};

/// A pure function of what all servers have. With 2 replicas the rows of a lost server are on the one after it, and
/// those that it had a copy of on the one before it.
RowsPlan plan_rows(const std::vector<ServerMemory>& servers, std::int64_t step, int replicas);

}  // namespace lockstep::parameter_servers
