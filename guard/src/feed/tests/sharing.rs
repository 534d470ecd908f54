//! Several VMs that share a feed.

use super::*;

/// The VMs of a gateway, and a service. A held request stays with its VM until there is an answer.
struct Gateway {
    vms: Vec<(Feed, Option<String>)>,
    store: Store,
    service: Service,
    now: u64,
    /// All requests so far.
    requests: Vec<(usize, String)>,
}

impl Gateway {
    fn new(vms: usize) -> Self {
        Self {
            vms: (0..vms).map(|_| (sharing(), None)).collect(),
            store: Store::default(),
            service: Service::new("A"),
            now: 0,
            requests: Vec::new(),
        }
    }

    /// Runs one tick of all VMs.
    fn tick(&mut self) {
        for (number, (feed, held)) in self.vms.iter_mut().enumerate() {
            let time = at(self.now);
            feed.keep_in_step(&self.store, time);
            loop {
                if held.is_none() {
                    let Some(request) = feed.due(self.now) else {
                        break;
                    };
                    self.requests.push((number, request.path.clone()));
                    *held = Some(request.path);
                }
                let path = held.clone().unwrap();
                if path.is_empty() {
                    // The service never answers.
                    break;
                }
                let since = path
                    .split("since=")
                    .nth(1)
                    .unwrap()
                    .split('&')
                    .next()
                    .unwrap();
                let is_at_end = since == self.service.entries.len().to_string()
                    && path.contains(&format!("feed={}&", self.service.feed));
                if path.contains("wait=") && is_at_end && !self.now.is_multiple_of(20) {
                    break;
                }
                *held = None;
                feed.answered(&self.service.answer(&path), &self.store, time)
                    .unwrap();
                if path.contains("wait=") {
                    break;
                }
            }
        }
    }

    fn seconds(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += 1;
            for _ in 0..3 {
                self.tick();
            }
        }
    }

    fn leaders(&self) -> Vec<usize> {
        let vms = self.vms.iter().enumerate();
        vms.filter(|(_, (feed, _))| feed.sharing.role == Role::Leader)
            .map(|(number, _)| number)
            .collect()
    }

    #[track_caller]
    fn assert_all_know(&self, jti: &str) {
        for (number, (feed, _)) in self.vms.iter().enumerate() {
            assert!(is_revoked(feed, jti), "{jti} in {number}");
        }
    }
}

#[test]
fn one_vm_polls_for_all() {
    let mut gateway = Gateway::new(5);
    gateway.service.revoke("before");
    gateway.seconds(3);
    gateway.assert_all_know("before");
    assert_eq!(gateway.leaders().len(), 1);
    gateway.requests.clear();
    for number in 0..300 {
        gateway.service.revoke(&format!("{number}"));
        gateway.tick();
        gateway.tick();
        gateway.assert_all_know(&format!("{number}"));
        gateway.service.revoke_elsewhere();
        gateway.tick();
        gateway.tick();
    }
    gateway.seconds(100);
    let leader = gateway.leaders()[0];
    for (vm, path) in &gateway.requests {
        assert!(*vm == leader && path.contains("wait=20"), "{vm} {path}");
    }
    for (feed, _) in &gateway.vms {
        assert!(feed.freshness().suffices(60, gateway.now));
    }
    // The feed stops answering all VMs.
    let now = gateway.now;
    gateway
        .vms
        .iter_mut()
        .for_each(|(_, held)| *held = Some(String::new()));
    for (feed, _) in &mut gateway.vms {
        assert!(!feed.freshness().suffices(60, now + 100));
    }
}

#[test]
fn another_vm_takes_over_when_the_leader_dies() {
    let mut gateway = Gateway::new(4);
    gateway.seconds(3);
    for round in 0..3 {
        let dead = gateway.leaders()[0];
        gateway.vms[dead] = (sharing(), None);
        gateway.service.revoke(&format!("{round}"));
        gateway.seconds(6);
        gateway.assert_all_know(&format!("{round}"));
        assert_eq!(gateway.leaders().len(), 1);
        assert_ne!(gateway.leaders(), [dead]);
    }
}

/// A VM that ends in order leaves no gap of seconds without a leader.
#[test]
fn another_vm_takes_over_at_once_from_a_leader_that_ends() {
    let mut gateway = Gateway::new(3);
    gateway.seconds(3);
    for _ in 0..3 {
        let ended = gateway.leaders()[0];
        let store = gateway.store.clone();
        gateway.vms[ended].0.resign(&store);
        gateway.vms[ended] = (sharing(), None);
        gateway.seconds(1);
        assert_eq!(gateway.leaders().len(), 1);
        assert_ne!(gateway.leaders(), [ended]);
        // Only the leader gives the lease up.
        let follower = (gateway.leaders()[0] + 1) % 3;
        let leaders = gateway.leaders();
        gateway.vms[follower].0.resign(&store);
        gateway.seconds(2);
        assert_eq!(gateway.leaders(), leaders);
    }
}

#[test]
fn a_vm_that_fell_out_of_the_ring_catches_up_by_itself() {
    let mut gateway = Gateway::new(3);
    gateway.seconds(3);
    let leader = gateway.leaders()[0];
    let slow = (leader + 1) % 3;
    let (feed, _) = std::mem::replace(&mut gateway.vms[slow], (sharing(), None));
    gateway.seconds(2);
    gateway.service.page = 5000;
    for _ in 0..20 {
        for number in 0..1500 {
            gateway.service.revoke(&format!("{} {number}", gateway.now));
        }
        gateway.seconds(1);
    }
    gateway.vms[slow] = (feed, None);
    gateway.requests.clear();
    let last = format!("{} 1499", gateway.now - 1);
    gateway.seconds(1);
    gateway.assert_all_know(&last);
    let own = gateway
        .requests
        .iter()
        .filter(|(vm, _)| *vm == slow)
        .count();
    assert!((1..=7).contains(&own), "{:?}", gateway.requests);
    gateway.requests.clear();
    gateway.service.revoke("next");
    gateway.seconds(1);
    gateway.assert_all_know("next");
    assert!(gateway.requests.iter().all(|(vm, _)| *vm == leader));
}

/// After a restore of the store, every VM reads the new feed from its start, and then one VM polls again.
#[test]
fn all_vms_follow_to_another_feed() {
    let mut gateway = Gateway::new(4);
    for number in 0..10 {
        gateway.service.revoke(&format!("a{number}"));
    }
    gateway.seconds(3);
    gateway.service = Service::new("B");
    for number in 0..30 {
        gateway.service.revoke(&format!("b{number}"));
    }
    gateway.seconds(6);
    for number in 0..10 {
        gateway.assert_all_know(&format!("a{number}"));
        gateway.assert_all_know(&format!("b{number}"));
    }
    gateway.requests.clear();
    gateway.service.revoke("next");
    gateway.seconds(1);
    gateway.assert_all_know("next");
    assert!(gateway.requests.len() <= 2, "{:?}", gateway.requests);
}

/// The configuration changes while the token service is away: new VMs know what the earlier VMs knew, and not more.
#[test]
fn a_new_vm_takes_over_what_the_others_know() {
    for later in [0, 30, 20_000] {
        let mut gateway = Gateway::new(3);
        (0..30).for_each(|number| gateway.service.revoke(&format!("a{number}")));
        gateway.seconds(25);
        gateway.service.page = 1500;
        for number in 0..later {
            gateway.service.revoke(&format!("b{number}"));
            if number % 1000 == 0 || later < 100 {
                gateway.tick();
            }
        }
        gateway.seconds(30);
        let answered_at = gateway
            .vms
            .iter()
            .filter_map(|(feed, _)| feed.completed_at());
        let answered_at = answered_at.max().unwrap();
        let mut new = sharing();
        let now = answered_at + 60;
        assert!(new.keep_in_step(&gateway.store, at(now)));
        assert_eq!(new.due(now), None);
        assert!((0..30).all(|number| is_revoked(&new, &format!("a{number}"))));
        assert!((0..later).all(|number| is_revoked(&new, &format!("b{number}"))));
        assert!(!is_revoked(&new, "c"));
        assert_eq!(new.completed_at(), Some(answered_at));
        assert!(
            new.freshness().suffices(60, answered_at + 60)
                && !new.freshness().suffices(60, answered_at + 61)
        );
        // What is stale is read on at once.
        let mut late = sharing();
        assert!(!late.keep_in_step(&gateway.store, at(answered_at + 61)));
        let request = late.due(answered_at + 61).unwrap();
        assert!(request.path.contains("feed=A&since=") && !request.path.contains("since=0"));
        assert!(is_revoked(&late, "a29"));
        // Nothing of another feed.
        let mut other = config();
        other.endpoint.path = "/other".into();
        let mut other = Feed::new(other);
        other.share();
        assert!(!other.keep_in_step(&gateway.store, at(now)));
        assert!(other.due(now).is_some());
    }
}

/// However rarely the VMs would poll for themselves.
#[test]
fn all_vms_read_another_feed_at_once() {
    let mut gateway = Gateway::new(4);
    for (feed, _) in &mut gateway.vms {
        *feed = Feed::new(FeedConfig {
            poll_seconds: 50,
            ..config()
        });
        feed.share();
    }
    gateway.service.revoke("a");
    gateway.seconds(3);
    for (round, identity) in ["B", "C"].into_iter().enumerate() {
        gateway.service = Service::new(identity);
        gateway.service.revoke(identity);
        // The leader's held request ends.
        gateway.now = 100 * (round as u64 + 1);
        for _ in 0..3 {
            gateway.tick();
        }
        gateway.assert_all_know(identity);
        gateway.seconds(30);
    }
}

#[test]
fn a_leader_without_answers_lets_others_try() {
    let mut gateway = Gateway::new(2);
    gateway.seconds(3);
    let cut_off = gateway.leaders()[0];
    // Its requests are never answered, and do not time out.
    for second in 0..60 {
        gateway.vms[cut_off].1 = Some(String::new());
        gateway.seconds(1);
        if second > 45 {
            assert_eq!(gateway.leaders(), [1 - cut_off]);
        }
    }
}

#[test]
fn without_shared_data_every_vm_polls() {
    let forgetful = Store {
        forgets: true,
        ..Store::default()
    };
    for store in [&NoSharedData as &dyn SharedData, &forgetful] {
        let service = Service::new("A");
        let mut feed = sharing();
        read_up(&mut feed, &service, store, 0);
        for now in 0..3 {
            feed.keep_in_step(store, at(now));
        }
        assert_eq!(feed.sharing.role, Role::Alone);
        assert!(feed.due(3).unwrap().path.ends_with("wait=20"));
    }
}

/// Two feeds in one `vm_id`.
#[test]
fn other_issuers_and_endpoints_share_nothing() {
    let mut others = [config(), config(), config()];
    others[0].issuers.push("https://other".into());
    others[1].endpoint.cluster = "other".into();
    others[2].endpoint.path = "/other".into();
    for other in others {
        assert_ne!(prefix(&other), prefix(&config()));
    }
}
