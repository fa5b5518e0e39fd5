// The backend of a group of one rank: every collective is at most a copy.
#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>
#include <lockstep/comm/work_states.h>

namespace lockstep::detail {
namespace {

class SelfBackend : public Backend {
 public:
  std::string_view name() const override { return "self"; }

  Pending all_reduce(at::Tensor&, ReduceOp, const Call&) override { return done(); }
  Pending reduce(at::Tensor&, int, ReduceOp, const Call&) override { return done(); }
  Pending broadcast(at::Tensor&, int, const Call&) override { return done(); }
  Pending all_gather(at::Tensor& output, const at::Tensor& input, const Call&) override { return copy(output, input); }
  Pending reduce_scatter(at::Tensor& output, const at::Tensor& input, ReduceOp, const Call&) override {
    return copy(output, input);
  }
  Pending all_to_all(at::Tensor& output, const at::Tensor& input, const Call&) override { return copy(output, input); }
  Pending gather(at::Tensor* output, const at::Tensor& input, int, const Call&) override {
    return copy(*output, input);
  }
  Pending scatter(at::Tensor& output, const at::Tensor* input, int, const Call&) override {
    return copy(output, *input);
  }
  Pending barrier(const Call&) override { return done(); }
  std::vector<std::string> exchange(const std::string& fingerprint, const Call&) override { return {fingerprint}; }

  Pending send(const at::Tensor&, int, int, const Call&) override { no_peer(); }
  Pending receive(at::Tensor&, int, int, const Call&) override { no_peer(); }

 private:
  static Pending copy(at::Tensor& output, const at::Tensor& input) {
    output.copy_(input.view(output.sizes()));  // a tensor without dimensions is gathered into one with a single row
    return done();
  }

  [[noreturn]] static void no_peer() {
    fail(ErrorKind::invalid_argument, "self", "a group of one rank has no other rank to exchange messages with");
  }
};

}  // namespace

std::unique_ptr<Backend> make_self_backend(const BackendContext&) { return std::make_unique<SelfBackend>(); }

}  // namespace lockstep::detail
