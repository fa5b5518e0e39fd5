// The progress of MPI: every wait advances all pending operations of this process. Blocks of bytes for MPI, and
// receives in their order.
#include <lockstep/base/error.h>
#include <lockstep/comm/mpi/progress.h>
#include <lockstep/comm/mpi/runtime.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep::detail::mpi {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

// A rank that completed its part may end, together with the store, while its data is still in transfer to this rank.
bool completes_without_it(const std::function<bool()>& step) {
  constexpr auto kOnItsWay = std::chrono::seconds(1);
  const auto deadline = Clock::now() + kOnItsWay;
  while (Clock::now() < deadline) {
    advance_all();
    if (step()) return true;
    std::this_thread::sleep_for(microseconds(200));
  }
  return step();
}

/// The operations of all groups, because MPI's own collectives also advance at every call of MPI.
struct All {
  std::mutex mutex;
  std::vector<std::shared_ptr<UnderWay>> operations;  // in the order of their calls
  std::atomic<bool> any{false};
};

All& all() {
  static All operations;
  return operations;
}

class State : public WorkState {
 public:
  State(std::shared_ptr<UnderWay> operation, std::function<void()> look_around)
      : operation_(std::move(operation)), look_around_(std::move(look_around)) {}

  void wait(milliseconds timeout) override {
    if (!poll([this] { return operation_->done(); }, operation_->bytes(), timeout, look_around_)) {
      throw Error(ErrorKind::timeout, "mpi", "not complete");
    }
    operation_->rethrow();
  }

  bool test() override {
    if (!operation_->done()) advance_all();
    return operation_->done();
  }

  void check_peers() override {
    try {
      look_around_();
    } catch (const Error&) {
      if (!completes_without_it([this] { return operation_->done(); })) throw;
    }
  }

 private:
  std::shared_ptr<UnderWay> operation_;
  std::function<void()> look_around_;
};

}  // namespace

bool UnderWay::advance() {
  try {
    if (!move()) return false;
  } catch (...) {
    error_ = std::current_exception();
  }
  done_ = true;
  return true;
}

Backend::Pending start(std::shared_ptr<UnderWay> operation, std::function<void()> look_around) {
  {
    const std::lock_guard lock(all().mutex);
    all().operations.push_back(operation);
    all().any = true;
  }
  advance_all();
  return std::make_shared<State>(std::move(operation), std::move(look_around));
}

bool advance_all() {
  std::vector<std::shared_ptr<UnderWay>> over;  // they release their tensors after the lock
  const std::unique_lock lock(all().mutex, std::try_to_lock);
  if (!lock) return false;
  auto& operations = all().operations;
  for (auto& operation : operations) {
    if (operation->advance()) over.push_back(std::move(operation));
  }
  std::erase(operations, nullptr);
  all().any = !operations.empty();
  return !over.empty();
}

bool any_under_way() { return all().any; }

bool poll(const std::function<bool()>& step, std::int64_t bytes, milliseconds timeout,
          const std::function<void()>& look_around) {
  constexpr std::int64_t kSlowestBytesPerMicrosecond = 200;
  const auto without_pause = milliseconds(2) + microseconds(bytes / kSlowestBytesPerMicrosecond);
  constexpr auto kLookAround = milliseconds(50);
  const auto start = Clock::now();
  auto next_look = start + kLookAround;
  auto pause = microseconds(5);
  for (;;) {
    advance_all();
    if (step()) return true;
    const auto now = Clock::now();
    if (now - start >= timeout) return false;
    if (look_around && now >= next_look) {
      try {
        look_around();
      } catch (const Error&) {
        if (completes_without_it(step)) return true;
        throw;
      }
      next_look = now + kLookAround;
    }
    if (now - start < without_pause) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, microseconds(200));
    }
  }
}

Requests::~Requests() {
  if (requests_.empty() || !running()) return;
  int flag = 0;
  const auto result = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &flag, MPI_STATUSES_IGNORE);
  if (result == MPI_SUCCESS && flag != 0) return;
  // Kept on purpose until the process ends: MPI may still read and write there.
  (void)used_.release();
}

MPI_Request* Requests::add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

bool Requests::complete() {
  if (requests_.empty()) return true;
  int flag = 0;
  check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &flag, MPI_STATUSES_IGNORE), "MPI_Testall");
  return flag != 0;
}

std::int64_t Requests::bytes() const {
  std::int64_t sum = 0;
  for (const auto& tensor : used_->tensors) {
    if (tensor.defined()) sum += static_cast<std::int64_t>(tensor.nbytes());
  }
  return sum;
}

namespace {

constexpr std::int64_t kPiece = std::int64_t{1} << 30;

// pieces * 2^30 bytes, followed by the remaining bytes.
MPI_Datatype make_long_type(std::int64_t bytes) {
  const auto pieces = static_cast<int>(bytes / kPiece);
  const auto rest = static_cast<int>(bytes % kPiece);
  MPI_Datatype piece = MPI_DATATYPE_NULL;
  MPI_Datatype whole_pieces = MPI_DATATYPE_NULL;
  check(MPI_Type_contiguous(static_cast<int>(kPiece), MPI_BYTE, &piece), "MPI_Type_contiguous");
  check(MPI_Type_contiguous(pieces, piece, &whole_pieces), "MPI_Type_contiguous");

  const std::array<int, 2> counts = {1, rest};
  const std::array<MPI_Aint, 2> places = {0, static_cast<MPI_Aint>(pieces * kPiece)};
  const std::array<MPI_Datatype, 2> types = {whole_pieces, MPI_BYTE};
  MPI_Datatype whole = MPI_DATATYPE_NULL;
  check(MPI_Type_create_struct(2, counts.data(), places.data(), types.data(), &whole), "MPI_Type_create_struct");
  check(MPI_Type_commit(&whole), "MPI_Type_commit");
  MPI_Type_free(&whole_pieces);
  MPI_Type_free(&piece);
  return whole;
}

}  // namespace

RequestBlock::RequestBlock(std::int64_t bytes) : count_(1) {
  if (bytes <= std::numeric_limits<int>::max()) {
    count_ = static_cast<int>(bytes);
  } else {
    type_ = make_long_type(bytes);
  }
}

RequestBlock::~RequestBlock() {
  // MPI keeps a freed type until the operations that use it are complete.
  if (type_ != MPI_BYTE && running()) MPI_Type_free(&type_);
}

// Waits for the earlier messages, then receives the length of its own message, then the content.
class Inbox::Receive : public UnderWay {
 public:
  Receive(MPI_Comm comm, at::Tensor bytes, int source, int tag, std::shared_ptr<Receive> before)
      : comm_(comm), bytes_(std::move(bytes)), source_(source), tag_(tag), before_(std::move(before)) {}

  std::int64_t bytes() const override { return bytes_.numel(); }

 protected:
  bool move() override {
    if (before_ && !before_->took_message()) return false;
    before_.reset();
    if (!content_ && !start_content()) return false;
    return content_->complete();
  }

 private:
  // The next message of this source and tag belongs to a later receive.
  bool took_message() const { return content_ || done(); }

  bool start_content() {
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status{};
    int arrived = 0;
    check(MPI_Improbe(source_, tag_, comm_, &arrived, &message, &status), "MPI_Improbe");
    if (arrived == 0) return false;
    MPI_Count sent = 0;
    check(MPI_Get_elements_x(&status, MPI_BYTE, &sent), "MPI_Get_elements_x");
    if (sent != bytes_.numel()) {
      throw Error(ErrorKind::mismatch, "receive",
                  fmt::format("rank {} sent {} bytes with tag {}, but the tensor to receive into has {}", source_,
                              static_cast<std::int64_t>(sent), tag_, bytes_.numel()));
    }
    const RequestBlock block(bytes_.numel());
    content_ = std::make_unique<Requests>(std::vector<at::Tensor>{bytes_});
    check(MPI_Imrecv(bytes_.data_ptr(), block.count(), block.type(), &message, content_->add()), "MPI_Imrecv");
    return true;
  }

  MPI_Comm comm_;
  at::Tensor bytes_;
  int source_;
  int tag_;
  std::shared_ptr<Receive> before_;
  std::unique_ptr<Requests> content_;
};

Backend::Pending Inbox::receive(MPI_Comm comm, const at::Tensor& bytes, int source, int tag,
                                std::function<void()> look_around) {
  auto& last = last_[{source, tag}];
  last = std::make_shared<Receive>(comm, bytes, source, tag, last);
  return mpi::start(last, std::move(look_around));
}

}  // namespace lockstep::detail::mpi
