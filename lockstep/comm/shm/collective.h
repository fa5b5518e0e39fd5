// The base class of the collectives over shared memory: entry, agreement on the call, and staging.
#pragma once

#include <lockstep/comm/shm/endpoint.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::shm {

/// Entry, agreement, and the choice between staging and memory that is already shared. The phases of a collective on
/// one rank:
///   1. enter: publish a header. Input in ordinary memory has its first chunk staged before, so that a small collective
///      costs one store to publish it and one read for each other rank;
///   2. settle: when the headers of all ranks are there, they agree, or this operation ends with Error(mismatch) on all
///      ranks and changes nothing. It works in place when the data of all ranks is in the same shared block, else
///      through staging;
///   3. move data until done: see the derived classes.
class Collective : public ShmOperation {
 public:
  Collective(const Signature& signature, const Place& place);

  /// For Kind::refused: the reason for the other ranks. Call it before `start`.
  void set_note(std::string note) { note_ = std::move(note); }

  /// Call it once, in the order in which all ranks call the group's collectives.
  void start(Endpoint& endpoint);
  /// Advances as far as possible without waiting.
  void advance(Endpoint& endpoint);
  std::uint64_t sequence() const { return sequence_; }

  std::vector<Lack> lacks(const Endpoint& endpoint) const final;

 protected:
  const Signature& signature() const { return signature_; }
  const Place& place() const { return place_; }
  std::uint64_t first_chunk() const { return first_chunk_; }

  /// The number of chunks when staged; the same on all ranks.
  virtual std::uint64_t chunk_count(const Endpoint& endpoint) const = 0;
  /// Whether this rank has data to stage.
  virtual bool contributes(const Endpoint& endpoint) const = 0;
  /// Writes this rank's part of chunk `index` (counted from first_chunk) to its staging buffer.
  virtual void stage(Endpoint& endpoint, std::uint64_t index) = 0;
  /// Moves the available data; true when this rank needs no more data. `staged` chunks were written before.
  virtual bool advance_staged(Endpoint& endpoint) = 0;
  virtual std::vector<Lack> staged_lacks(const Endpoint& endpoint) const = 0;
  /// This rank's share of the work in shared memory; afterwards the other ranks must do theirs.
  virtual void share_in_place(Endpoint& endpoint) = 0;

  std::uint64_t chunks() const { return chunks_; }
  /// The number of chunks that this rank has staged.
  std::uint64_t staged() const { return staged_; }
  /// Stages the next chunk and publishes it, if there is a next one and its buffer is free.
  bool stage_next(Endpoint& endpoint);
  /// Whether `rank` has staged chunk `index`.
  bool is_staged(const Endpoint& endpoint, int rank, std::uint64_t index) const;
  Lack staging_lack(const Endpoint& endpoint) const;
  /// The address of `rank`'s data, once all headers are known to name the same block.
  std::byte* shared_address(const Endpoint& endpoint, int rank) const;

 private:
  enum class Stage { waits, entered, staged, shared, ends };

  bool enter(Endpoint& endpoint);
  bool settle(Endpoint& endpoint);
  bool all_shared(const Endpoint& endpoint) const;
  Error mismatch(const Endpoint& endpoint) const;

  Signature signature_;
  std::uint64_t hash_;
  Place place_;
  std::string note_;
  Stage stage_ = Stage::waits;
  bool agrees_ = true;
  bool in_one_block_;
  int seen_ = 0;  // all ranks below this one have entered
  bool took_chunks_ = false;
  bool did_share_ = false;
  std::uint64_t sequence_ = 0;
  std::uint64_t chunks_ = 0;
  std::uint64_t first_chunk_ = 0;
  std::uint64_t staged_ = 0;
};

}  // namespace lockstep::shm
