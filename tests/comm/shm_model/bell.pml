/* lockstep/comm/shm/spin_then_sleep.cpp: nobody sleeps on after what it waits for was published.
 *
 * Sleeps have no time limit here, so a wake that is lost shows as a deadlock. Steps are sequentially consistent; in the
 * code the order follows from both sides using read-modify-write operations on the same word of bits.
 *
 * Every rank publishes ROUNDS times and, before each time but the first, waits until all others have published as
 * often: a barrier, in which every rank is publisher and sleeper at once.
 *
 * -DBROKEN=1: the sleeper does not look again after leaving its bit.
 * -DBROKEN=2: the sleeper reads its word only after leaving its bit.
 */
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef RANKS
#define RANKS 3
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif

byte published[RANKS];
byte sleepers[RANKS];    /* bits of the ranks that wait for this one */
byte word[RANKS];        /* the futex */
bool asleep[RANKS];

proctype rank(byte me) {
  byte round = 1;
  byte other;
  byte heard;
  byte bits;
  byte r;

  do
  :: round > ROUNDS -> break
  :: else ->
    /* publish, then wake_sleepers */
    published[me] = round;
    d_step { bits = sleepers[me]; sleepers[me] = 0 }
    r = 0;
    do
    :: r == RANKS -> break
    :: else ->
      if
      :: bits & (1 << r) ->
        word[r]++;
        asleep[r] = false   /* FUTEX_WAKE */
      :: else
      fi;
      r++
    od;
    /* wait for each of the others */
    other = 0;
    do
    :: other == RANKS -> break
    :: other < RANKS && published[other] >= round -> other++
    :: else ->
#if BROKEN == 2
      d_step { sleepers[other] = sleepers[other] | (1 << me) }
      heard = word[me];
#else
      heard = word[me];
      d_step { sleepers[other] = sleepers[other] | (1 << me) }
#endif
      if
#if BROKEN != 1
      :: published[other] >= round    /* look_again */
#endif
      :: else ->
        /* FUTEX_WAIT compares and falls asleep in one step */
        d_step {
          if
          :: word[me] == heard -> asleep[me] = true
          :: else
          fi
        }
        !asleep[me]
      fi;
      d_step { sleepers[other] = sleepers[other] & (255 - (1 << me)) }
    od;
    round++
  od
}

init {
  atomic {
    run rank(0);
    run rank(1);
#if RANKS > 2
    run rank(2)
#endif
  }
}
