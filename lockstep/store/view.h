// The view of a store with copies: the processes that have a copy, and the leader among them.
#pragma once

#include <lockstep/store/protocol.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::store {

struct Address {
  std::string host;
  std::uint16_t port = 0;

  bool empty() const { return port == 0; }
  auto operator<=>(const Address&) const = default;
};

struct Member {
  std::string id;  ///< the random id of its process
  Address address;
};

/// Every member of the newest view has every acknowledged write. Only the leader makes a new view.
struct View {
  std::string store;                   ///< the name of the store, random; empty: no store yet
  std::uint64_t epoch = 0;             ///< each leader has its own epoch, greater than all before
  std::uint64_t version = 0;           ///< counts the views of the store
  std::chrono::milliseconds lease{0};  ///< a member that was silent for this long may be dropped, or be succeeded
  std::vector<Member> members;         ///< the leader, then the other members in the order in which they joined

  bool has(std::string_view id) const;
  std::string leader() const { return members.empty() ? "" : members.front().id; }
};

/// The state that a process reports to any other process; `earlier` only to some.
struct Standing {
  std::string id;
  View view{};                  ///< the view of its copy
  std::vector<View> earlier{};  ///< the views before it, back to the last one that all its members have had
  bool leads = false;
  bool free = false;           ///< it has lost its leader, and may vote
  bool joined = false;         ///< its copy is as new as the leader's, or there are enough other members
  std::uint64_t promised = 0;  ///< the greatest epoch for which it has voted
  Address leader{};            ///< the leader's address as far as it is known
};

void write(MessageWriter& writer, const Address& address);
void write(MessageWriter& writer, const View& view);
void write(MessageWriter& writer, const std::vector<View>& views);
void write(MessageWriter& writer, const Standing& standing);
Address read_address(MessageReader& reader);
View read_view(MessageReader& reader);
std::vector<View> read_views(MessageReader& reader);  ///< at least one; BadMessage otherwise
Standing read_standing(MessageReader& reader);

}  // namespace lockstep::store
