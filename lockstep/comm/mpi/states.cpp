// Blocks of bytes for MPI, and receives in their order.
#include <lockstep/comm/mpi/states.h>

#include <lockstep/base/error.h>
#include <lockstep/comm/mpi/runtime.h>

#include <array>
#include <limits>

namespace lockstep::detail::mpi {
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
