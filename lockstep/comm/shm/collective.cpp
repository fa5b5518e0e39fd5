// The states of a collective in shared memory: enter with a signature, compare all signatures, then stage or share.
#include <lockstep/base/shown_text.h>
#include <lockstep/comm/shm/collective.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep::shm {

Collective::Collective(const Signature& signature, const Place& place)
    : ShmOperation(shm::name(signature.kind)),
      signature_(signature),
      hash_(hash(signature)),
      place_(place),
      in_one_block_(place.block != 0) {}

void Collective::start(Endpoint& endpoint) {
  sequence_ = endpoint.next_sequence();
  chunks_ = chunk_count(endpoint);
}

void Collective::advance(Endpoint& endpoint) {
  if (stage_ == Stage::waits && !enter(endpoint)) return;
  if (stage_ == Stage::entered && !settle(endpoint)) return;
  if (stage_ == Stage::staged && advance_staged(endpoint)) stage_ = Stage::ends;
  if (stage_ == Stage::shared) {
    if (!did_share_) {
      share_in_place(endpoint);
      endpoint.publish_direct(sequence_);
      did_share_ = true;
    }
    if (all_shared(endpoint)) stage_ = Stage::ends;
  }
  if (stage_ == Stage::ends) finish();
}

bool Collective::enter(Endpoint& endpoint) {
  if (!endpoint.may_enter(sequence_)) return false;
  const bool stage_now = place_.block == 0 && chunks_ > 0;
  if (stage_now) {
    // Earlier collectives may still end in a mismatch, which changes the number of the next chunk.
    if (!endpoint.all_settled_before(sequence_)) return false;
    if (contributes(endpoint) && !endpoint.chunk_free(endpoint.next_chunk())) return false;
    first_chunk_ = endpoint.take_chunks(chunks_);
    took_chunks_ = true;
    stage(endpoint, 0);
    staged_ = 1;
  }
  endpoint.enter(sequence_, signature_, hash_, place_, stage_now, note_);
  stage_ = Stage::entered;
  return true;
}

bool Collective::settle(Endpoint& endpoint) {
  if (!endpoint.all_settled_before(sequence_)) return false;
  for (; seen_ < endpoint.size(); ++seen_) {
    const Header* header = endpoint.entered(seen_, sequence_);
    if (header == nullptr) return false;
    agrees_ = agrees_ && header->hash == hash_;
    in_one_block_ = in_one_block_ && header->block == place_.block;
  }
  if (!agrees_) {
    if (took_chunks_) endpoint.give_back_chunks(chunks_);
    finish_with(mismatch(endpoint));
    stage_ = Stage::ends;
  } else if (in_one_block_) {
    stage_ = Stage::shared;
  } else {
    if (!took_chunks_) first_chunk_ = endpoint.take_chunks(chunks_);
    stage_ = Stage::staged;
  }
  endpoint.settle(sequence_);
  return true;
}

bool Collective::stage_next(Endpoint& endpoint) {
  if (staged_ == chunks_) return false;
  if (contributes(endpoint) && !endpoint.chunk_free(first_chunk_ + staged_)) return false;
  stage(endpoint, staged_);
  ++staged_;
  endpoint.publish_produced(first_chunk_ + staged_);
  return true;
}

bool Collective::is_staged(const Endpoint& endpoint, int rank, std::uint64_t index) const {
  if (rank == endpoint.rank()) return staged_ > index;
  const Segment& segment = endpoint.segment();
  if (index == 0 && segment.header(rank, sequence_).holds_chunk != 0) return true;
  return segment.progress(rank).produced.load(std::memory_order_acquire) > first_chunk_ + index;
}

bool Collective::all_shared(const Endpoint& endpoint) const {
  for (int rank = 0; rank < endpoint.size(); ++rank) {
    if (endpoint.segment().progress(rank).direct.load(std::memory_order_acquire) < sequence_) return false;
  }
  return true;
}

std::byte* Collective::shared_address(const Endpoint& endpoint, int rank) const {
  return place_.address(rank, endpoint.segment().header(rank, sequence_).offset);
}

Lack Collective::staging_lack(const Endpoint& endpoint) const {
  if (staged_ == chunks_ || !contributes(endpoint)) return {};
  return {endpoint.ranks_not_consumed(first_chunk_ + staged_), "has not read what was staged before"};
}

std::vector<Lack> Collective::lacks(const Endpoint& endpoint) const {
  const Segment& segment = endpoint.segment();
  Lack lack;
  switch (stage_) {
    case Stage::waits:
      lack = {endpoint.ranks_not_completed(sequence_), "has not completed earlier collectives"};
      if (!lack.ranks.empty() || place_.block != 0 || chunks_ == 0) break;
      lack = {endpoint.ranks_not_consumed(endpoint.next_chunk()), "has not read what was staged before"};
      break;
    case Stage::entered:
      lack.what = "has not entered it";
      for (int rank = 0; rank < endpoint.size(); ++rank) {
        if (segment.header(rank, sequence_).sequence.load(std::memory_order_acquire) < sequence_) {
          lack.ranks.push_back(rank);
        }
      }
      break;
    case Stage::staged: return staged_lacks(endpoint);
    case Stage::shared:
      lack.what = "has not done its share";
      for (int rank = 0; rank < endpoint.size(); ++rank) {
        if (segment.progress(rank).direct.load(std::memory_order_acquire) < sequence_) lack.ranks.push_back(rank);
      }
      break;
    case Stage::ends: break;
  }
  return {lack};
}

Error Collective::mismatch(const Endpoint& endpoint) const {
  // Ranks with equal signatures are named together, in the order of their first ranks.
  struct Alike {
    std::string call;
    std::uint64_t trace;
    std::vector<int> ranks;
  };
  std::vector<Alike> groups;
  for (int rank = 0; rank < endpoint.size(); ++rank) {
    const Header& header = endpoint.segment().header(rank, sequence_);
    const bool refused = header.signature.kind == Kind::refused;
    const std::string theirs = refused ? std::string(header.note.data()) : describe(header.signature);
    const std::uint64_t trace = header.signature.trace;
    auto group = groups.begin();
    while (group != groups.end() && (group->call != theirs || group->trace != trace)) ++group;
    if (group == groups.end()) group = groups.insert(group, {theirs, trace, {}});
    group->ranks.push_back(rank);
  }
  std::vector<std::string> parts;
  for (const auto& [theirs, trace, ranks] : groups) {
    parts.push_back(fmt::format("{}: {}", names_of_ranks(ranks), theirs));
  }
  return Error(ErrorKind::mismatch, name(),
               fmt::format("the ranks do not make the same call. {}. All of them must call the same collectives in the "
                           "same order, with equal shapes and dtypes",
                           fmt::join(parts, "; ")));
}

}  // namespace lockstep::shm
