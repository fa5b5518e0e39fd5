#include <lockstep/rows/initial_row.h>
#include <lockstep/servers/shard.h>

#include <algorithm>
#include <utility>

namespace lockstep::servers {
namespace {

constexpr auto kBlockRows = static_cast<std::size_t>(Shard::kRowsOfBlock);
constexpr std::size_t kFirstPlaces = 1024;  // a power of two, as all numbers of places
constexpr std::int64_t kNone = -1;

}  // namespace

Shard::Shard(TableSpec table, const rows::RuleSettings& rule)
    : table_(std::move(table)),
      rule_(rule),
      dim_(static_cast<std::size_t>(table_.dim)),
      width_(dim_ * (1 + rows::state_names(rule.rule).size())),
      places_(kFirstPlaces, kNone) {}

// The place of an id, or the free one where it belongs.
std::size_t Shard::find(std::int64_t id) const {
  const auto mask = places_.size() - 1;
  auto place = static_cast<std::size_t>(rows::mixed(static_cast<std::uint64_t>(id))) & mask;
  while (places_[place] != kNone && ids_[static_cast<std::size_t>(places_[place])] != id) place = (place + 1) & mask;
  return place;
}

float* Shard::row_of(std::int64_t slot) const {
  const auto index = static_cast<std::size_t>(slot);
  return blocks_[index / kBlockRows].get() + index % kBlockRows * width_;
}

void Shard::grow() {
  places_.assign(2 * places_.size(), kNone);
  for (std::size_t slot = 0; slot < ids_.size(); ++slot) places_[find(ids_[slot])] = static_cast<std::int64_t>(slot);
}

float* Shard::made(std::int64_t id) {
  auto place = find(id);
  if (places_[place] != kNone) return row_of(places_[place]);
  if (4 * (ids_.size() + 1) > 3 * places_.size()) {
    grow();
    place = find(id);
  }
  if (ids_.size() % kBlockRows == 0) blocks_.push_back(std::make_unique<float[]>(kBlockRows * width_));
  places_[place] = size();
  ids_.push_back(id);
  float* row = row_of(places_[place]);
  rows::initial_row(table_.seed, id, table_.deviation, {row, dim_});
  for (std::size_t i = 0; i < rows::state_names(rule_.rule).size(); ++i) {
    std::fill_n(row + (1 + i) * dim_, dim_, rows::initial_state(rule_, i));
  }
  return row;
}

void Shard::read(std::int64_t id, float* weights) const {
  const auto place = find(id);
  if (places_[place] != kNone) {
    std::copy_n(row_of(places_[place]), dim_, weights);
  } else {
    rows::initial_row(table_.seed, id, table_.deviation, {weights, dim_});
  }
}

void Shard::remember_from_here() {
  if (!before_) before_.emplace();
  before_->steps = steps_;
  before_->slots.clear();
  before_->numbers.clear();
}

// A row that was made meanwhile stays, with the numbers that it had when it was made: those that it would get again.
void Shard::take_back() {
  if (!before_) return;
  steps_ = before_->steps;
  // The first that was remembered of a row is the oldest.
  for (auto i = std::ssize(before_->slots) - 1; i >= 0; --i) {
    const auto index = static_cast<std::size_t>(i);
    std::copy_n(before_->numbers.data() + index * width_, width_, row_of(before_->slots[index]));
  }
  before_.reset();
}

void Shard::update(const rows::SparseRows& gradients, const rows::RowUpdate& update) {
  ++steps_;
  for (std::size_t i = 0; i < gradients.ids.size(); ++i) {
    float* row = made(gradients.ids[i]);
    if (before_) {
      before_->slots.push_back(places_[find(gradients.ids[i])]);
      before_->numbers.insert(before_->numbers.end(), row, row + width_);
    }
    rows::RowPlace place{.weights = row};
    for (std::size_t k = 0; k < rows::state_names(rule_.rule).size(); ++k) place.states[k] = row + (1 + k) * dim_;
    rows::apply(update, gradients.values.data() + i * dim_, place, dim_);
  }
}

std::span<float> Shard::block(std::size_t index) {
  return {blocks_[index].get(), std::min(kBlockRows, ids_.size() - index * kBlockRows) * width_};
}

void Shard::put(std::int64_t id, std::span<const float> row) { std::ranges::copy(row, made(id)); }

std::int64_t Shard::bytes() const {
  const auto of_rows = blocks_.size() * kBlockRows * width_ * sizeof(float);
  const auto of_places = (places_.size() + ids_.size()) * sizeof(std::int64_t);
  return static_cast<std::int64_t>(of_rows + of_places);
}

}  // namespace lockstep::servers
