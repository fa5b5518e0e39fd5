// The ambient mesh. Order: that of the thread's scope, that of its last operator, the last one made in the process.
#include <lockstep/global/dispatch/ambient_mesh.h>

#include <mutex>
#include <utility>

namespace lockstep::global {
namespace {

std::mutex last_made_mutex;
std::weak_ptr<MeshState> last_made;
thread_local std::weak_ptr<MeshState> last_used;
thread_local const MeshState* last_used_address = nullptr;
thread_local std::shared_ptr<MeshState> scoped;

}  // namespace

void set_ambient_mesh(const std::shared_ptr<MeshState>& mesh) {
  const std::lock_guard lock(last_made_mutex);
  last_made = mesh;
}

void work_with(const std::shared_ptr<MeshState>& mesh) {
  if (mesh.get() == last_used_address && !last_used.expired()) return;
  last_used = mesh;
  last_used_address = mesh.get();
}

std::shared_ptr<MeshState> ambient_mesh() {
  if (scoped) return scoped;
  if (auto mesh = last_used.lock()) return mesh;
  const std::lock_guard lock(last_made_mutex);
  return last_made.lock();
}

std::shared_ptr<MeshState> exchange_scoped_mesh(std::shared_ptr<MeshState> mesh) {
  return std::exchange(scoped, std::move(mesh));
}

}  // namespace lockstep::global
