// The view of a store with copies: which processes have one, and which of them leads.
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
  std::string id;  ///< of its process: random
  Address address;
};

/// Every member has every write that was acknowledged, as of the newest view. Only the leader makes a new one.
struct View {
  std::string store;                   ///< the name of the store, random; empty: there is none yet
  std::uint64_t epoch = 0;             ///< each leader has an own one, greater than all before
  std::uint64_t version = 0;           ///< counts the views of the store
  std::chrono::milliseconds lease{0};  ///< a member that was silent for so long may be dropped, or be succeeded
  std::vector<Member> members;         ///< the leader, then the others in the order of their arrival

  bool has(std::string_view id) const;
  std::string leader() const { return members.empty() ? "" : members.front().id; }
};

/// What a process says of itself to everybody, but for `earlier`.
struct Standing {
  std::string id;
  View view{};                  ///< of its copy
  std::vector<View> earlier{};  ///< those before it, back to the last one that all its members have had
  bool leads = false;
  bool free = false;           ///< it has lost its leader, and may vote
  bool joined = false;         ///< its copy is as new as the leader's, or there are enough others
  std::uint64_t promised = 0;  ///< the greatest epoch that it has voted for
  Address leader{};            ///< where it believes the leader to be
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
