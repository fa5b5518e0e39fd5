// The wire form of addresses, views and standings of a store with copies.
#include <lockstep/store/view.h>

#include <algorithm>

namespace lockstep::store {

bool View::has(std::string_view id) const {
  return std::any_of(members.begin(), members.end(), [&](const Member& member) { return member.id == id; });
}

void write(MessageWriter& writer, const Address& address) { writer.text(address.host).number(address.port); }

void write(MessageWriter& writer, const View& view) {
  writer.text(view.store).number(view.epoch).number(view.version);
  writer.number(static_cast<std::uint64_t>(view.lease.count())).number(view.members.size());
  for (const Member& member : view.members) {
    writer.text(member.id);
    write(writer, member.address);
  }
}

void write(MessageWriter& writer, const std::vector<View>& views) {
  writer.number(views.size());
  for (const View& view : views) write(writer, view);
}

void write(MessageWriter& writer, const Standing& standing) {
  writer.text(standing.id);
  write(writer, standing.view);
  for (const bool fact : {standing.leads, standing.free, standing.joined}) writer.number(fact ? 1 : 0);
  writer.number(standing.promised);
  write(writer, standing.leader);
}

Address read_address(MessageReader& reader) {
  Address address;
  address.host = reader.key();
  address.port = static_cast<std::uint16_t>(reader.number());
  return address;
}

View read_view(MessageReader& reader) {
  View view;
  view.store = reader.key();
  view.epoch = reader.number();
  view.version = reader.number();
  view.lease = std::chrono::milliseconds(reader.number());
  for (auto left = reader.number(); left > 0; --left) {
    auto id = reader.key();
    view.members.push_back({std::move(id), read_address(reader)});
  }
  return view;
}

std::vector<View> read_views(MessageReader& reader) {
  std::vector<View> views;
  for (auto left = reader.number(); left > 0; --left) views.push_back(read_view(reader));
  if (views.empty() || views.back().members.empty()) throw BadMessage("a store without a view");
  return views;
}

Standing read_standing(MessageReader& reader) {
  Standing standing;
  standing.id = reader.key();
  standing.view = read_view(reader);
  for (bool* fact : {&standing.leads, &standing.free, &standing.joined}) *fact = reader.number() != 0;
  standing.promised = reader.number();
  standing.leader = read_address(reader);
  return standing;
}

}  // namespace lockstep::store
