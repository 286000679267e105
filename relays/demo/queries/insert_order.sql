-- Takes one order.
insert into shop.orders (customer, article, quantity) values (%(customer)s, %(article)s, %(quantity)s)
returning id
