#include <lockstep/cluster/elastic/store_users.h>

namespace lockstep::cluster::elastic {
namespace {

constexpr const char* kUsers = "lockstep/users";
constexpr const char* kSigns = "lockstep/signs_of_life";

}  // namespace

void enter_store(KeyValueStore& store) { store.add(kUsers, 1); }
void show_life(KeyValueStore& store) { store.add(kSigns, 1); }
void leave_store(KeyValueStore& store) { store.add(kUsers, -1); }

bool StoreUsers::any(Time now) {
  if (store_.add(kUsers, 0) <= 0) return false;
  const auto signs = store_.add(kSigns, 0);
  if (signs != signs_) changed_ = now;
  signs_ = signs;
  return now - changed_ < silence_;
}

}  // namespace lockstep::cluster::elastic
