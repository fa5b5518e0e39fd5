// Rows in blocks that never move, found by id; and the plan of a recovery: which servers undo a step, which get rows
// from a neighbour's copy, and what prevents it.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/parameter_servers/server_rows.h>
#include <lockstep/rows/row_rule.h>

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::parameter_servers {
namespace {

constexpr std::size_t kMostRowsOfBlock = 4096;
constexpr std::size_t kNumbersOfBlock = std::size_t{1} << 20;
constexpr std::size_t kFirstPlaces = 1024;  // the number of places is always a power of two
constexpr std::size_t kAhead = 16;          // rows that are prefetched
constexpr std::int64_t kNone = -1;

}  // namespace

Shard::Shard(TableSpec table, const rows::RuleSettings& rule)
    : table_(std::move(table)),
      rule_(rule),
      dim_(static_cast<std::size_t>(table_.dim)),
      width_(dim_ * (1 + rows::state_names(rule.rule).size())),
      rows_of_block_(std::clamp<std::size_t>(kNumbersOfBlock / width_, 1, kMostRowsOfBlock)),
      places_(kFirstPlaces, kNone) {}

// The first place of the search for an id.
std::size_t Shard::place_of(std::int64_t id) const {
  return static_cast<std::size_t>(rows::mixed(static_cast<std::uint64_t>(id))) & (places_.size() - 1);
}

// The place of an id, or the free place for it.
std::size_t Shard::find(std::int64_t id) const {
  const auto mask = places_.size() - 1;
  auto place = place_of(id);
  while (places_[place] != kNone && ids_[static_cast<std::size_t>(places_[place])] != id) place = (place + 1) & mask;
  return place;
}

float* Shard::row_of(std::int64_t slot) const {
  const auto index = static_cast<std::size_t>(slot);
  return blocks_[index / rows_of_block_].get() + index % rows_of_block_ * width_;
}

void Shard::grow() {
  places_.assign(2 * places_.size(), kNone);
  for (std::size_t slot = 0; slot < ids_.size(); ++slot) places_[find(ids_[slot])] = static_cast<std::int64_t>(slot);
}

// The slot of a row, which is created if it does not exist.
std::int64_t Shard::made(std::int64_t id) {
  auto place = find(id);
  if (places_[place] != kNone) return places_[place];
  if (4 * (ids_.size() + 1) > 3 * places_.size()) {
    grow();
    place = find(id);
  }
  if (ids_.size() % rows_of_block_ == 0) blocks_.push_back(std::make_unique<float[]>(rows_of_block_ * width_));
  places_[place] = size();
  ids_.push_back(id);
  float* row = row_of(places_[place]);
  rows::initial_row(table_.seed, id, table_.deviation, {row, dim_});
  for (std::size_t i = 0; i < rows::state_names(rule_.rule).size(); ++i) {
    std::fill_n(row + (1 + i) * dim_, dim_, rows::initial_state(rule_, i));
  }
  return places_[place];
}

// In groups, so that the memory accesses of all rows of a group overlap.
void Shard::read(std::span<const std::int64_t> ids, float* weights) const {
  std::array<const float*, kAhead> found{};
  for (; !ids.empty(); ids = ids.subspan(std::min(kAhead, ids.size()))) {
    const auto group = ids.first(std::min(kAhead, ids.size()));
    for (const auto id : group) __builtin_prefetch(&places_[place_of(id)]);
    for (std::size_t i = 0; i < group.size(); ++i) {
      const auto slot = places_[find(group[i])];
      found.at(i) = slot == kNone ? nullptr : row_of(slot);
      if (slot != kNone) __builtin_prefetch(found.at(i));
    }
    for (std::size_t i = 0; i < group.size(); ++i, weights += dim_) {
      if (found.at(i) != nullptr) {
        std::copy_n(found.at(i), dim_, weights);
      } else {
        rows::initial_row(table_.seed, group[i], table_.deviation, {weights, dim_});
      }
    }
  }
}

void Shard::remember_from_here() {
  if (!before_) before_.emplace();
  before_->steps = steps_;
  before_->slots.clear();
  before_->numbers.clear();
}

// A row that was created since then stays, with its initial values: it would get the same values again.
void Shard::take_back() {
  if (!before_) return;
  steps_ = before_->steps;
  // The first saved values of a row are the oldest.
  for (auto i = std::ssize(before_->slots) - 1; i >= 0; --i) {
    const auto index = static_cast<std::size_t>(i);
    std::copy_n(before_->numbers.data() + index * width_, width_, row_of(before_->slots[index]));
  }
  before_.reset();
}

void Shard::update(std::span<const std::int64_t> ids, const float* gradients, const rows::RowUpdate& update) {
  const auto states = rows::state_names(rule_.rule).size();
  std::array<std::int64_t, kAhead> slots{};
  for (; !ids.empty(); ids = ids.subspan(std::min(kAhead, ids.size()))) {
    const auto group = ids.first(std::min(kAhead, ids.size()));
    for (const auto id : group) __builtin_prefetch(&places_[place_of(id)]);
    for (std::size_t i = 0; i < group.size(); ++i) {
      slots.at(i) = made(group[i]);
      __builtin_prefetch(row_of(slots.at(i)), /*for writing*/ 1);
    }
    for (std::size_t i = 0; i < group.size(); ++i, gradients += dim_) {
      float* row = row_of(slots.at(i));
      if (before_) {
        before_->slots.push_back(slots.at(i));
        before_->numbers.insert(before_->numbers.end(), row, row + width_);
      }
      rows::RowPlace place{.weights = row};
      for (std::size_t k = 0; k < states; ++k) place.states.at(k) = row + (1 + k) * dim_;
      rows::apply(update, gradients, place, dim_);
    }
  }
}

std::span<float> Shard::block(std::size_t index) {
  return {blocks_[index].get(), std::min(rows_of_block_, ids_.size() - index * rows_of_block_) * width_};
}

void Shard::set_weights(std::int64_t id, std::span<const float> weights) {
  std::ranges::copy(weights, row_of(made(id)));
}

void Shard::put(std::int64_t id, std::span<const float> row) { std::ranges::copy(row, row_of(made(id))); }

std::int64_t Shard::bytes() const {
  const auto of_rows = blocks_.size() * rows_of_block_ * width_ * sizeof(float);
  const auto of_places = (places_.size() + ids_.size()) * sizeof(std::int64_t);
  return static_cast<std::int64_t>(of_rows + of_places);
}

int part_of(int server, bool copy, int servers) { return copy ? (server + servers - 1) % servers : server; }

void take_back_step(HeldRows& rows) {
  for (auto& part : rows.parts) {
    for (auto& shard : part) shard.take_back();
  }
  --rows.step;
  rows.remembers = false;
}

std::string print_memory(const ServerMemory& memory) {
  if (!memory.has_rows) return "new";
  return fmt::format("{}{}", memory.step, memory.remembers ? "+" : "");
}

ServerMemory parse_memory(const std::string& text) {
  if (text == "new") return {};
  const bool remembers = text.ends_with('+');
  const auto step = parse_integer(text.substr(0, text.size() - (remembers ? 1 : 0)));
  if (!step || *step < 0) fail(ErrorKind::data, "recovery", "a server's report of its rows is invalid: {}", text);
  return {.has_rows = true, .step = *step, .remembers = remembers};
}

RowsPlan plan_rows(const std::vector<ServerMemory>& servers, std::int64_t step, int replicas) {
  RowsPlan plan;
  const auto count = servers.size();
  const auto beside = [&](std::size_t server, std::size_t distance) { return servers[(server + distance) % count]; };
  for (std::size_t server = 0; server < count; ++server) {
    const auto& memory = servers[server];
    const bool ahead = memory.has_rows && memory.remembers && memory.step == step + 1;
    plan.takes_back.push_back(ahead);
    plan.takes_rows.push_back(!memory.has_rows);
    if (!plan.obstacle.empty() || ahead) continue;
    if (memory.has_rows && memory.step != step) {
      plan.obstacle = fmt::format("server {} has the rows after step {}, and the workers go on after step {}", server,
                                  memory.step, step);
    } else if (!memory.has_rows && replicas < 2) {
      plan.obstacle = fmt::format("the rows of server {} are lost with it (parallel.server.replicas is 1)", server);
    } else if (!memory.has_rows && !(beside(server, 1).has_rows && beside(server, count - 1).has_rows)) {
      plan.obstacle = fmt::format("the rows of server {} are lost with it and one beside it", server);
    }
  }
  return plan;
}

}  // namespace lockstep::parameter_servers
